/* SPDX-License-Identifier: Apache-2.0 */
#include "client/plot/svg.h"
#include "client/output/plural.h"

#include "client/plot/axis.h"
#include "client/plot/lanes.h"
#include "client/plot/xml.h"

#include <inttypes.h>
#include <string.h>

enum { SVG_WIDTH = 1280, SVG_PAD = 28, SVG_TICK_ROOM = 92 };
enum { SVG_CAUSE_SIZE = 13, SVG_CAUSE_LINES = 4, SVG_LINE = 19 };

/* Together about a megabyte of bars and half of it of marks. */
static const struct merge_limits picture_limits = { .bars = 7500, .waits = 2000, .marks = 2000 };
static const struct merge_limits page_limits = { .bars = 30000, .waits = 12000, .marks = 12000 };

struct svg {
	const struct plot *p;
	FILE *f;
	struct lanes lanes;
	double x, y; /* where the lanes begin */
	double height;
	int64_t zone;
	bool page;
};

/* --- the head --- */

static void text_at(const struct svg *s, const char *class, double x, double y)
{
	fprintf(s->f, "<text class=\"%s\" x=\"", class);
	xml_number(s->f, x, 1);
	fputs("\" y=\"", s->f);
	xml_number(s->f, y, 1);
	fputs("\">", s->f);
}

static const char *state_now(const struct plot *p)
{
	if (p->result)
		return p->result;
	return p->n_phases ? p->phases[p->n_phases - 1].state : "no events";
}

static const char *verdict_class(const struct plot *p)
{
	if (!p->result || !strcmp(p->result, "stopped"))
		return p->result ? "vs" : "vr";
	if (!strcmp(p->result, "succeeded"))
		return "vg";
	return strcmp(p->result, "preempted") != 0 ? "vf" : "vp";
}

static void draw_verdict(const struct svg *s)
{
	char text[160];
	double width;

	snprintf(text, sizeof(text), "%s", state_now(s->p));
	for (char *c = text; *c; c++)
		*c = *c == '_' ? ' ' : *c;
	if (s->p->result && s->p->exit_status)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), ", exit status %d",
			s->p->exit_status);
	width = xml_width(text, 13) + 36;
	fprintf(s->f, "<rect class=\"%s\" x=\"", verdict_class(s->p));
	xml_number(s->f, SVG_WIDTH - SVG_PAD - width, 1);
	fputs("\" y=\"20\" width=\"", s->f);
	xml_number(s->f, width, 1);
	fputs("\" height=\"26\" rx=\"13\"/>\n", s->f);
	text_at(s, "vt", SVG_WIDTH - SVG_PAD - width / 2, 37.5);
	xml_text(s->f, text, 0);
	fputs("</text>\n", s->f);
}

static void write_counted(FILE *f, size_t n, const char *what)
{
	fprintf(f, " \xc2\xb7 %zu %s%s", n, what, plural((int64_t)n));
}

static void write_summary(const struct svg *s)
{
	char stamp[TIME_TEXT_MAX], took[TIME_TEXT_MAX];
	const struct plot *p = s->p;
	size_t hosts = p->n_hosts > p->n_sources ? p->n_hosts : p->n_sources;

	fputs(time_text_since(p->to, p->from, took), s->f);
	write_counted(s->f, p->n_workers, "worker");
	if (hosts > 1)
		write_counted(s->f, hosts, "host");
	write_counted(s->f, p->attempts, "attempt");
	write_counted(s->f, p->restarts, "restart");
	fprintf(s->f, " \xc2\xb7 since %s", time_text_timestamp(p->from, stamp));
}

/* The text of the root cause, or the verdict's message of a run that failed without one; borrowed
 * from the plot, NULL for other runs. */
static const char *cause_text(const struct plot *p)
{
	if (p->root.worker)
		return p->root.text;
	if (p->result && p->exit_status)
		return p->message;
	return NULL;
}

static void cause_where(const struct plot *p, char buf[256])
{
	char took[TIME_TEXT_MAX];

	if (!p->root.worker) {
		snprintf(buf, 256, "Reason");
		return;
	}
	snprintf(buf, 256, "Root cause: %.128s, rank %d, attempt %d, after %s", p->root.worker,
		p->root.rank, p->root.attempt, time_text_since(p->root.at, p->from, took));
}

/* Draws the box, and returns its height; s NULL: only measures. */
static double draw_cause_box(const struct svg *s, const struct plot *p, double y)
{
	const char *text = cause_text(p);
	const double room = SVG_WIDTH - 2 * SVG_PAD - 32;
	char where[256];
	int lines = 0;

	if (!text)
		return 0;
	cause_where(p, where);
	for (const char *at = text; *at && lines < SVG_CAUSE_LINES;) {
		size_t n = strcspn(at, "\n"), fits = xml_fits(at, SVG_CAUSE_SIZE, room);
		bool last = ++lines == SVG_CAUSE_LINES;

		n = n < fits ? n : fits;
		if (s) {
			text_at(s, "ct", SVG_PAD + 16, y + 24 + lines * SVG_LINE);
			if (last)
				xml_text(s->f, at, at[n] ? n - 1 : 0);
			else
				xml_part(s->f, at, n);
			fputs("</text>\n", s->f);
		}
		at += n;
		at += strspn(at, "\n ");
	}
	if (s) {
		text_at(s, "ct b", SVG_PAD + 16, y + 24);
		xml_text(s->f, where, 0);
		fputs("</text>\n", s->f);
	}
	return 24 + lines * SVG_LINE + 12;
}

static void draw_head(const struct svg *s)
{
	const struct plot *p = s->p;
	double height = draw_cause_box(NULL, p, 0);

	text_at(s, "h", SVG_PAD, 40);
	xml_text(s->f, p->job ? p->job : "?", 80);
	fputs("<tspan class=\"m n\" dx=\"12\">", s->f);
	xml_text(s->f, p->run ? p->run : "", 100);
	fputs("</tspan></text>\n", s->f);
	draw_verdict(s);
	text_at(s, "m", SVG_PAD, 64);
	write_summary(s);
	fputs("</text>\n", s->f);
	if (!height)
		return;
	fprintf(s->f,
		"<g><title>root cause</title><rect class=\"cb\" x=\"%d\" y=\"80\" width=\"%d\" "
		"height=\"%.0f\" rx=\"4\"/><rect class=\"cl\" x=\"%d\" y=\"80\" width=\"4\" "
		"height=\"%.0f\"/></g>\n",
		SVG_PAD, SVG_WIDTH - 2 * SVG_PAD, height, SVG_PAD, height);
	(void)draw_cause_box(s, p, 80);
}

/* --- axes --- */

static void draw_tick(const struct svg *s, double x, const char *text, bool top)
{
	fputs("<path class=\"t\" d=\"M", s->f);
	xml_number(s->f, x, 1);
	if (top)
		fprintf(s->f, " %.1fV%.1f\"/>", s->y - 5, s->y + s->lanes.height);
	else
		fprintf(s->f, " %.1fv5\"/>", s->y + s->lanes.height);
	text_at(s, "a", x, top ? s->y - 10 : s->y + s->lanes.height + 18);
	fprintf(s->f, "%s</text>\n", text);
}

static void draw_axes(const struct svg *s)
{
	const struct scale *scale = &s->lanes.scale;
	int64_t step = axis_step(scale->to - scale->from, (int)(scale->width / SVG_TICK_ROOM));
	char buf[TIME_TEXT_MAX], date[TIME_TEXT_MAX];
	int64_t first;

	fputs("<g id=\"axes\">\n", s->f);
	for (int64_t t = 0; t <= scale->to - scale->from; t += step)
		draw_tick(s, s->x + scale_x(scale, scale->from + t), axis_elapsed(t, buf), true);
	first = (scale->from + s->zone + step - 1) / step * step - s->zone;
	for (int64_t t = first; t <= scale->to; t += step)
		/* At the left is the date. */
		if (scale_x(scale, t) >= SVG_TICK_ROOM / 2)
			draw_tick(s, s->x + scale_x(scale, t), axis_clock(t, s->zone, step, buf),
				false);
	fputs("</g>\n", s->f);
	text_at(s, "l m", s->x - 10, s->y - 10);
	fputs("elapsed</text>\n", s->f);
	text_at(s, "l m", s->x - 10, s->y + s->lanes.height + 18);
	time_text_clock(scale->from, false, date);
	fprintf(s->f, "%.10s</text>\n", date);
}

/* --- the legend --- */

static double draw_legend_item(const struct svg *s, double x, double y, const char *text)
{
	text_at(s, "k", x + 22, y + 4);
	fprintf(s->f, "%s</text>\n", text);
	return x + 22 + xml_width(text, 12) + 22;
}

static double draw_legend(const struct svg *s, double y)
{
	static const struct {
		const char *class, *text;
	} bars[] = { { "q", "starting" }, { "r", "running" }, { "z", "stopping" },
		{ "w", "group waits" }, { "i", "waited at a barrier" } };
	size_t n_bars = sizeof(bars) / sizeof(bars[0]) - (s->p->n_barriers == 0);
	double x = SVG_PAD;

	fputs("<g id=\"legend\">\n", s->f);
	for (size_t i = 0; i < n_bars; i++) {
		fprintf(s->f,
			"<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"16\" height=\"10\"/>",
			bars[i].class, x, y - 5);
		x = draw_legend_item(s, x, y, bars[i].text);
	}
	for (int kind = PLOT_N_KINDS - 1; kind >= 0; kind--) {
		if (!lanes_have(s->p, kind))
			continue;
		if (x + 22 + xml_width(plot_kind_text(kind), 12) > SVG_WIDTH - SVG_PAD) {
			x = SVG_PAD;
			y += 22;
		}
		fprintf(s->f, "<use href=\"#%s\" x=\"%.1f\" y=\"%.1f\"/>", plot_kind_letter(kind),
			x + 8, y);
		x = draw_legend_item(s, x, y, plot_kind_text(kind));
	}
	fputs("</g>\n", s->f);
	return y + 24;
}

/* --- the whole --- */

static void define_glyph(const struct svg *s, const char *id, const char *shape)
{
	fprintf(s->f, "<g id=\"%s\" transform=\"scale(%.2f)\">%s</g>\n", id, s->lanes.glyph, shape);
}

static void define_glyphs(const struct svg *s)
{
	fputs("<defs>\n", s->f);
	define_glyph(s, "n", "<circle class=\"gn\" r=\"3\"/>");
	define_glyph(s, "j", "<path class=\"gj\" d=\"M0-5l5 9h-10z\"/>");
	define_glyph(s, "h", "<path class=\"gh\" d=\"M0 5l5-9h-10z\"/>");
	define_glyph(s, "s", "<path class=\"gs\" d=\"M-4-4h6l2 2v6h-8z\"/>");
	define_glyph(s, "l", "<path class=\"gl\" d=\"M-4-4h8v8h-8z\"/>");
	define_glyph(s, "a", "<path class=\"ga\" d=\"M0-5.5l5.5 5.5-5.5 5.5-5.5-5.5z\"/>");
	define_glyph(s, "p", "<path class=\"gp\" d=\"M-1-7h2v1h7l-2 3 2 3h-7v7h-2z\"/>");
	define_glyph(s, "o",
		"<path class=\"go\" d=\"M-5.5-5.5h11v11h-11z\"/>"
		"<path class=\"gw\" d=\"M-2.5-2.5h5v5h-5z\"/>");
	define_glyph(s, "b", "<circle class=\"gb\" r=\"4\"/>");
	define_glyph(s, "k", "<path class=\"gk\" d=\"M1-7l-5 8h3l-1 6 6-9h-3.5z\"/>");
	define_glyph(s, "f",
		"<circle class=\"gf\" r=\"5.5\"/><path class=\"gx\" d=\"M-2.3-2.3l4.6 4.6m0-4.6"
		"l-4.6 4.6\"/>");
	define_glyph(s, "r",
		"<circle class=\"gr\" r=\"9.5\"/><circle class=\"gf\" r=\"6\"/>"
		"<path class=\"gx\" d=\"M-2.6-2.6l5.2 5.2m0-5.2l-5.2 5.2\"/>");
	for (const char *line = "rpo"; *line; line++)
		fprintf(s->f, "<path id=\"l%c\" class=\"l%c\" d=\"M0 0V%.1f\"/>\n", *line, *line,
			s->lanes.height);
	fputs("</defs>\n", s->f);
}

/* For those who hear the picture read, and who hover over its title. */
static void write_description(const struct svg *s)
{
	fputs("<title id=\"title\">", s->f);
	xml_text(s->f, s->p->run ? s->p->run : "?", 0);
	fprintf(s->f, ": %s</title>\n<desc id=\"desc\">", state_now(s->p));
	write_summary(s);
	if (cause_text(s->p)) {
		char where[256];

		cause_where(s->p, where);
		fputs(". ", s->f);
		xml_text(s->f, where, 0);
		fputs(": ", s->f);
		xml_text(s->f, cause_text(s->p), 0);
	}
	fputs("</desc>\n", s->f);
}

/* lanes_bars() and lanes_marks() each in a coordinate system of its own, so that a script can move
 * them without touching what is in it. */
static void draw_plot_area(const struct svg *s)
{
	const struct lanes *l = &s->lanes;

	fprintf(s->f,
		"<svg id=\"bars\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
		"viewBox=\"0 0 %.1f %.1f\" preserveAspectRatio=\"none\">\n",
		s->x, s->y, l->scale.width, l->height, l->scale.width, l->height);
	lanes_bars(l);
	/* Marks at the first and the last moment are whole. */
	fprintf(s->f,
		"</svg>\n<svg id=\"marks\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
		"viewBox=\"-12 0 %.1f %.1f\">\n",
		s->x - 12, s->y, l->scale.width + 24, l->height, l->scale.width + 24, l->height);
	lanes_marks(l);
	fputs("</svg>\n", s->f);
}

static void draw_picture(struct svg *s)
{
	const struct scale *scale = &s->lanes.scale;

	fprintf(s->f,
		"<svg id=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
		"viewBox=\"0 0 %d %.0f\" role=\"img\" aria-labelledby=\"title desc\"",
		SVG_WIDTH, s->height, SVG_WIDTH, s->height);
	if (s->page)
		fprintf(s->f,
			" data-from=\"%" PRId64 "\" data-to=\"%" PRId64 "\" data-zone=\"%" PRId64
			"\" data-x=\"%.1f\" data-y=\"%.1f\" data-w=\"%.1f\" data-h=\"%.1f\"",
			scale->from, scale->to, s->zone, s->x, s->y, scale->width, s->lanes.height);
	fputs(">\n", s->f);
	write_description(s);
	if (!s->page)
		fprintf(s->f, "<style>%s</style>\n", plot_style_text);
	define_glyphs(s);
	fprintf(s->f, "<rect class=\"bg\" width=\"%d\" height=\"%.0f\"/>\n", SVG_WIDTH, s->height);
	draw_head(s);
	draw_axes(s);
	fprintf(s->f, "<g transform=\"translate(0 %.1f)\">\n", s->y);
	lanes_labels(&s->lanes, s->x - 10);
	fputs("</g>\n", s->f);
	draw_plot_area(s);
	(void)draw_legend(s, s->y + s->lanes.height + 46);
	fputs("</svg>\n", s->f);
}

static int svg_init(struct svg *s, const struct plot *p, FILE *f, bool page)
{
	double gutter = lanes_labels_width(p) + 12, box = draw_cause_box(NULL, p, 0);
	const struct merge_limits *limits = page ? &page_limits : &picture_limits;
	int r;

	gutter = gutter < 96 ? 96 : gutter > 240 ? 240 : gutter;
	*s = (struct svg){ .p = p, .f = f, .page = page, .zone = axis_zone(p->from) };
	s->x = SVG_PAD + gutter;
	s->y = 80 + (box > 0 ? box + 16 : 0) + 30;
	s->lanes = (struct lanes){ .p = p, .f = f, .page = page, .places = page ? 3 : 2 };
	s->lanes.scale = (struct scale){ .from = p->from,
		.to = p->to,
		.width = SVG_WIDTH - SVG_PAD - s->x,
		.bar = page ? 1.0 / 32 : 1,
		.wait = page ? 1.0 / 32 : 1,
		.mark = page ? 0.25 : 7,
		.major = page ? 0.25 : 3 };
	merge_fit(&s->lanes.scale, p, limits);
	r = lanes_init(&s->lanes);
	if (r == 0)
		s->height = s->y + s->lanes.height + 46 + 22 * 2 + 8;
	return r;
}

int svg_write(const struct plot *p, FILE *f)
{
	struct svg s;
	int r = svg_init(&s, p, f, false);

	if (r < 0)
		return r;
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", f);
	draw_picture(&s);
	lanes_fini(&s.lanes);
	return 0;
}

int svg_write_page(const struct plot *p, FILE *f)
{
	struct svg s;
	int r = svg_init(&s, p, f, true);

	if (r < 0)
		return r;
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
		f);
	xml_text(f, p->run ? p->run : "?", 0);
	fprintf(f, "</title>\n<style>%s</style></head><body>\n", plot_style_text);
	fputs("<nav><button id=\"in\" title=\"zoom in (+)\">+</button><button id=\"out\" "
	      "title=\"zoom out (-)\">\xe2\x88\x92</button><button id=\"all\" "
	      "title=\"the whole run (0)\">all</button><span id=\"hint\"></span></nav>\n",
		f);
	draw_picture(&s);
	fprintf(f, "<div id=\"tip\" hidden></div>\n<script>%s</script>\n</body></html>\n",
		plot_script_text);
	lanes_fini(&s.lanes);
	return 0;
}
