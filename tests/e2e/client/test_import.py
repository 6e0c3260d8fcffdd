# SPDX-License-Identifier: Apache-2.0
"""import: supervisord's programs become job files, and what has no counterpart is named with its place."""

import pathlib

CORPUS = pathlib.Path(__file__).parents[2] / "fuzz/corpus/supervisord"
DISABLED = "nothing sends it events or opens its socket here: the job is disabled"
MAIN = """\
[unix_http_server]
file=/run/supervisor.sock
[supervisord]
environment=LANG="C.UTF-8"
[program:web]
command=/usr/bin/web --port=80%(process_num)02d --name "%(program_name)s x" ; serves
numprocs=2
process_name=%(program_name)s_%(process_num)02d
user=www-data
directory=/srv/web
umask=027
priority=10
autorestart=true
startsecs=5
stopsignal=QUIT
stopwaitsecs=30
stopasgroup=true
environment=A="1,2",PORT="%(process_num)d"
redirect_stderr=true
stdout_logfile_maxbytes=10MB
stdout_logfile_backups=3
[include]
files=more/*.conf
"""
MORE = """\
[program:odd]
command=sh -c "echo %(ENV_NOT_THERE)s"
autostart=false
stdout_logfile=/var/log/odd.log
stdout_events_enabled=true
stderr_logfile=NONE
[eventlistener:mail]
command=%(here)s/mail
events=PROCESS_STATE
[fcgi-program:php]
command=php-cgi
socket=tcp://localhost:9000
[group:site]
programs=web,php
[program:wrong]
command=lost
[program:wrong]
user=www-data
"""


def write(box, main=MAIN, more=None):
    conf = box.path("work") / "supervisord.conf"
    conf.write_text(main)
    if more:
        (conf.parent / "more").mkdir()
        (conf.parent / "more/a.conf").write_text(more)
    return conf


def test_programs_become_job_files_that_are_valid(box):
    conf = write(box, more=MORE)
    jobs = box.path("jobs")
    jobs.mkdir()
    result = box.ctl("import", f"--dir={jobs}", conf)
    more = conf.parent / "more/a.conf"
    assert result.rc == 1, result
    assert result.err.splitlines() == [
        f"{more}:13: [group:site]: its programs become jobs of their own, which are not started or "
        "stopped together",
        f"{more}:15: [program:wrong]: comes again, and only the last one of a name is used",
        f"{more}:2: [program:odd] command: %(ENV_NOT_THERE)s is not known here: it stays as it is",
        f"{more}:4: [program:odd] stdout_logfile: the output goes to files that \"elasticctl logs odd\" "
        "shows, not to /var/log/odd.log",
        f"{more}:5: [program:odd] stdout_events_enabled: has no counterpart",
        f"{more}:7: [eventlistener:mail]: {DISABLED}",
        f"{more}:9: [eventlistener:mail] events: has no counterpart",
        f"{more}:10: [fcgi-program:php]: {DISABLED}",
        f"{more}:12: [fcgi-program:php] socket: has no counterpart",
        f"{more}:17: [program:wrong]: a command is missing, or cannot be read"]
    files = sorted(jobs.iterdir())
    assert [f.name for f in files] == ["mail.yaml.disabled", "odd.yaml.disabled", "php.yaml.disabled",
                                        "web.yaml"]
    valid = box.ctl("validate", "--json", *files)
    assert valid.rc == 0, valid
    mail, odd, _, web = valid.json
    assert mail["roles"][0]["command"] == [f"{more.parent}/mail"]
    assert odd["after"] == ["web"] and odd["logs"]["redirects"] == 1
    role = web["roles"][0]
    assert role["command"] == ["/usr/bin/web"] and role["replicas"] == 2
    assert role["args"] == [["--port=8000", "--name", "web x"], ["--port=8001", "--name", "web x"]]
    assert role["env"] == {"LANG": "C.UTF-8", "A": "1,2"}
    assert role["env_per_replica"] == [{"PORT": "0"}, {"PORT": "1"}]
    assert (web["user"], web["cwd"], web["umask"]) == ("www-data", "/srv/web", "027") and "after" not in web
    assert web["restart"]["policy"] == "always" and web["restart"]["scope"] == "worker"
    assert web["restart"]["window_max"] == 3 and web["restart"]["healthy_after"] == "5s"
    assert (web["stop"]["signal"], web["stop"]["whom"], web["stop"]["timeout"]) == ("QUIT", "group", "30s")
    assert web["logs"]["merge"] and web["logs"]["max_size"] == "10M" and web["logs"]["keep"] == 3
    text = (jobs / "web.yaml").read_text()
    assert f"# From supervisord: [program:web], {conf}:5\n" in text and "[group:site]" in text
    assert "  policy: always  # autorestart=true\n" in text
    # Files that are there may have been changed.
    again = box.ctl("import", f"--dir={jobs}", conf)
    assert again.rc == 1 and "web.yaml: File exists" in again.err


def test_a_file_with_counterparts_only_succeeds(box):
    conf = write(box, main=MAIN.split("[include]")[0])
    result = box.ctl("import", conf)
    assert result.rc == 0 and not result.err
    assert result.out.startswith("# web.yaml\n# From supervisord: ")
    assert box.ctl("import", "--json", conf).json[0]["name"] == "web"
    assert box.ctl("import", box.path("none")).rc == 1


def test_files_of_five_sites_become_job_files_that_are_valid(box):
    """Sites in PHP, Django and Tornado, the last one with listeners; a trainer; a service and its queue."""
    jobs = {}
    for name in ("php", "django", "tornado", "trainer", "back"):
        made = box.path(name)
        made.mkdir()
        result = box.ctl("import", f"--dir={made}", CORPUS / name, env={"DATA": "/data", "TB_PORT": "6006"})
        assert result.rc == 1 and "not known" not in result.err, result
        valid = box.ctl("validate", "--json", *sorted(made.iterdir()))
        assert valid.rc == 0, valid
        jobs.update((job["name"], job) for job in valid.json)
    assert sorted(jobs) == ["api", "catalog", "crashmail", "cron", "httpok", "jupyter_lab", "laravel-worker",
                            "memmon", "migrate", "nginx", "node", "once", "php-fpm", "redis", "shop_beat",
                            "shop_web", "shop_worker", "tensorboard", "tornado", "trainer"]
    assert jobs["tensorboard"]["after"] == ["jupyter_lab"], "the job's name, where the program's is another"
    assert jobs["trainer"]["roles"][0]["command"][-1] == "/home/ml/runs", "its own HOME"
    assert jobs["shop_worker"]["roles"][0]["args"][2] == ["worker3@%h", "--loglevel=INFO", "-c", "4"]
