/* SPDX-License-Identifier: Apache-2.0 */
"use strict";
/* Zooms and pans the picture in time. The bars are stretched by their viewBox; marks and labels keep
 * their shapes and only move. Times are microseconds, x and widths those of the picture. */
(() => {
	const NS = "http://www.w3.org/2000/svg", MS = 1e3, SECOND = 1e6, MINUTE = 60 * SECOND,
		HOUR = 60 * MINUTE, DAY = 24 * HOUR;
	const svg = document.getElementById("plot"), bars = document.getElementById("bars"),
		marks = document.getElementById("marks"), axes = document.getElementById("axes"),
		tip = document.getElementById("tip");
	const { from, to, zone, x: left, y: top, w: width, h: height } = Object.fromEntries(
		Object.entries(svg.dataset).map(([key, value]) => [key, Number(value)]));
	const length = to - from;
	/* The part that is shown: x of the whole picture. */
	let at = 0, part = width, queued = false;

	/* The marks and labels that move; at first each is where the whole run has it. */
	const moving = [...marks.querySelectorAll("use, text")].map((e) => ({
		e, x: Number(e.getAttribute("x")), w: Number(e.dataset.w), full: e.dataset.t }));

	/* Tooltips follow the pointer at once; a browser's own come late. */
	for (const title of [...svg.querySelectorAll("title")]) {
		const parent = title.parentNode;
		if (parent === svg) continue;
		parent.dataset.tip = title.textContent;
		parent.setAttribute("aria-label", title.textContent);
		title.remove();
	}

	const make = (parent, name, attributes, text) => {
		const e = document.createElementNS(NS, name);
		for (const key in attributes) e.setAttribute(key, attributes[key]);
		if (text !== undefined) e.textContent = text;
		parent.append(e);
		return e;
	};

	/* --- axes --- */

	const step = (us) => {
		for (let unit = 1; unit < SECOND; unit *= 10)
			for (const n of [1, 2, 5]) if (us <= n * unit) return n * unit;
		return [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200]
			.map((s) => s * SECOND).find((s) => us <= s) ||
			[1, 2, 5, 10, 20, 50, 100].map((d) => d * DAY).find((d) => us <= d) ||
			Math.ceil(us / (100 * DAY)) * 100 * DAY;
	};
	const decimals = (us) => {
		let n = 6;
		for (; n > 0 && us % 10 === 0; us /= 10) n--;
		return n;
	};
	const elapsed = (us) => {
		if (us === 0) return "0";
		if (us < MS) return `${us}\u00b5s`;
		if (us < SECOND) return `${Number((us / MS).toFixed(3))}ms`;
		if (us < MINUTE) return `${Number((us / SECOND).toFixed(6))}s`;
		const two = (n, big, m, small) => `${n}${big}` + (m ? ` ${Number(m.toFixed(6))}${small}` : "");
		if (us < HOUR) return two(Math.floor(us / MINUTE), "m", us % MINUTE / SECOND, "s");
		/* A deep zoom far into a run needs the seconds, too. */
		const rest = us % MINUTE ? " " + elapsed(us % MINUTE) : "";
		if (us < DAY) return two(Math.floor(us / HOUR), "h", Math.floor(us % HOUR / MINUTE), "m") + rest;
		return two(Math.floor(us / DAY), "d", Math.floor(us % DAY / HOUR), "h") +
			(us % HOUR ? " " + elapsed(us % HOUR) : "");
	};
	const clock = (us, by) => {
		const shifted = us + zone, date = new Date(Math.floor(shifted / MS)).toISOString();
		if (by >= DAY || shifted % DAY === 0)
			return `${Number(date.slice(8, 10))} ` + ["Jan", "Feb", "Mar", "Apr", "May", "Jun",
				"Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][Number(date.slice(5, 7)) - 1];
		if (by >= MINUTE) return date.slice(11, 16);
		const digits = decimals(by);
		return date.slice(11, 19) + (by < SECOND && digits ?
			"." + String(shifted % SECOND).padStart(6, "0").slice(0, digits) : "");
	};
	const draw_axes = () => {
		const first = from + at / width * length, shown = part / width * length;
		const by = step(shown / Math.floor(width / 92));
		const px = (t) => left + (t - first) / shown * width;
		axes.replaceChildren();
		for (let t = Math.ceil((first - from) / by) * by; t <= first - from + shown; t += by) {
			const x = px(from + t);
			make(axes, "path", { class: "t", d: `M${x} ${top - 5}V${top + height}` });
			if (t === 0 || x > left + 40)
				make(axes, "text", { class: "a", x, y: top - 10 }, elapsed(t));
		}
		for (let t = Math.ceil((first + zone) / by) * by - zone; t <= first + shown; t += by) {
			const x = px(t);
			if (x < left + 46) continue;
			make(axes, "path", { class: "t", d: `M${x} ${top + height}v5` });
			make(axes, "text", { class: "a", x, y: top + height + 18 }, clock(t, by));
		}
	};

	/* --- zoom --- */

	const draw = () => {
		const k = width / part;
		queued = false;
		bars.setAttribute("viewBox", `${at} 0 ${part} ${height}`);
		for (const m of moving) {
			let x = (m.x - at) * k;
			if (m.full) { /* a label, in what is seen of its phase */
				const half = m.w * k / 2, begin = Math.max(x - half, 0),
					end = Math.min(x + half, width), room = end - begin,
					number = m.full.replace(/^\D+/, "");
				x = (begin + end) / 2;
				m.e.textContent = room > m.full.length * 6.2 + 6 ? m.full :
					room > number.length * 6.2 + 4 ? number : "";
			}
			if (x < -12 || x > width + 12) {
				m.e.style.display = "none";
				continue;
			}
			m.e.style.display = "";
			m.e.setAttribute("x", x);
		}
		draw_axes();
		document.body.dataset.zoom = k.toFixed(3);
	};
	const show = (x, w) => {
		/* A microsecond is the shortest that times can be told apart by. */
		part = Math.min(width, Math.max(w, width / length * 20));
		at = Math.min(Math.max(0, x), width - part);
		if (!queued) {
			queued = true;
			requestAnimationFrame(draw);
		}
	};
	const zoom = (factor, where = 0.5) => show(at + part * where * (1 - factor), part * factor);

	/* --- the pointer --- */

	/* The pointer's place in the lanes, from 0 to 1; null outside. */
	const place = (event) => {
		const box = svg.getBoundingClientRect(), scale = box.width / 1280;
		const x = ((event.clientX - box.left) / scale - left) / width;
		const y = (event.clientY - box.top) / scale - top;
		return x < 0 || x > 1 || y < -24 || y > height + 24 ? null : x;
	};
	const fits = () => document.documentElement.scrollHeight <= innerHeight + 4;
	svg.addEventListener("wheel", (event) => {
		const where = place(event);
		/* The wheel scrolls a page that is higher than the window. */
		if (where === null || !(fits() || event.ctrlKey || event.shiftKey)) return;
		event.preventDefault();
		if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
			show(at + event.deltaX / width * part, part);
		else
			zoom(Math.exp(event.deltaY * 0.002), where);
	}, { passive: false });

	let dragged = null;
	const cursor = make(svg, "path", { class: "cur" });
	svg.addEventListener("pointerdown", (event) => {
		const where = place(event);
		if (where === null || event.button !== 0) return;
		dragged = { where, at };
		svg.setPointerCapture(event.pointerId);
		document.body.classList.add("drag");
	});
	for (const end of ["pointerup", "pointercancel"])
		svg.addEventListener(end, () => {
			dragged = null;
			document.body.classList.remove("drag");
		});
	svg.addEventListener("dblclick", (event) => {
		const where = place(event);
		if (where !== null) zoom(0.25, where);
	});
	svg.addEventListener("pointermove", (event) => {
		const where = place(event), named = event.target.closest?.("[data-tip]");
		if (dragged) {
			const box = svg.getBoundingClientRect(), scale = box.width / 1280;
			const now = ((event.clientX - box.left) / scale - left) / width;
			show(dragged.at - (now - dragged.where) * part, part);
		}
		cursor.setAttribute("d", where === null ? "" : `M${left + where * width} ${top}v${height}`);
		tip.hidden = where === null && !named;
		if (tip.hidden) return;
		const us = (at + (where ?? 0) * part) / width * length;
		const by = Math.pow(10, Math.max(0, Math.floor(Math.log10(part / width * length / 2000) || 0)));
		const rounded = Math.round(us / by) * by;
		tip.textContent = (named ? named.dataset.tip : "") + (where === null ? "" : (named ? "\n" : "") +
			`${elapsed(rounded)} \u00b7 ${new Date((from + zone + us) / MS).toISOString().slice(0, 19)
				.replace("T", " ")}`);
		const room = tip.getBoundingClientRect();
		tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - room.width - 8))}px`;
		tip.style.top = `${event.clientY + 18 + room.height > innerHeight ?
			event.clientY - room.height - 12 : event.clientY + 18}px`;
	});
	svg.addEventListener("pointerleave", () => {
		tip.hidden = true;
		cursor.setAttribute("d", "");
	});

	/* --- buttons and keys --- */

	const actions = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
		"0": () => show(0, width), ArrowLeft: () => show(at - part / 5, part),
		ArrowRight: () => show(at + part / 5, part) };
	addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey || !actions[event.key]) return;
		event.preventDefault();
		actions[event.key]();
	});
	document.getElementById("in").onclick = actions["+"];
	document.getElementById("out").onclick = actions["-"];
	document.getElementById("all").onclick = actions["0"];
	const hint = () => {
		document.getElementById("hint").textContent =
			(fits() ? "Wheel" : "Ctrl and wheel") + ": zoom. Drag: move. Double click: closer.";
	};
	addEventListener("resize", hint);
	hint();
	/* "#at=0.25,part=0.1" opens the page there: parts of the whole run. */
	const asked = /^#at=([\d.]+),part=([\d.]+)$/.exec(location.hash);
	if (asked) show(asked[1] * width, asked[2] * width);
	else draw();
})();
