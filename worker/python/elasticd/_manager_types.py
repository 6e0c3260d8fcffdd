# SPDX-License-Identifier: Apache-2.0
"""The types of the interface io.elasticd.Manager, made by tests/tools/manager-types.

Change common/varlink/io.elasticd.Manager.varlink, then run
tests/tools/manager-types > worker/python/elasticd/_manager_types.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Optional

from ._records import JobState, LineData, Record


@dataclass(frozen=True)
class Exit(Record):
    """How a process ended: code for an exit, signal and signal_name for a death by signal, or error and
    errno when it could not be executed at all. out_of_memory: the signal was the kernel's, which needed
    memory. core: where the core dump is, a path or what a program has done with it. kernel: what the
    kernel's log says about the process."""

    code: Optional[int] = None
    signal: Optional[int] = None
    signal_name: Optional[str] = None
    core_dumped: Optional[bool] = None
    out_of_memory: Optional[bool] = None
    error: Optional[str] = None
    errno: Optional[int] = None
    core: Optional[str] = None
    kernel: Optional[str] = None


@dataclass(frozen=True)
class Worker(Record):
    """One worker. index counts within the role. restarts counts how often the worker was started again,
    with the group or alone; start counts its starts within the attempt, from 0. max_restarts is set for
    a worker that restarts alone: how often it may (-1: within a window of time). on_purpose: a person
    stopped it. extra: a person added it beyond the specification. attached: it runs in a user's
    terminal. cpus: those that it is bound to (resources.affinity), such as "0-7,64". next_start_us: when
    a waiting worker starts again. rss_bytes, cpu_ms (of the worker and its descendants), last_line and
    step are set if the caller asked for live figures. saved_step and saved_path: the step and path that
    it saved on a notice of preemption. Of a worker that makes steps, where live figures are asked for or
    the run has ended: step is the number of its last one, first_step that of its first one, which began
    at first_step_us; steps is how many it has begun; steps_per_s is measured over the last speed_ms.
    straggler: how it is slower than the others."""

    role: str
    index: int
    rank: int
    local_rank: int
    state: Literal["waiting", "starting", "running", "stopping", "succeeded", "failed", "stopped"]
    reason: Optional[str] = None
    pid: Optional[int] = None
    exit: Optional[Exit] = None
    started_us: Optional[int] = None
    ended_us: Optional[int] = None
    restarts: Optional[int] = None
    max_restarts: Optional[int] = None
    rss_bytes: Optional[int] = None
    cpu_ms: Optional[int] = None
    last_line: Optional[str] = None
    start: Optional[int] = None
    on_purpose: Optional[bool] = None
    extra: Optional[bool] = None
    attached: Optional[bool] = None
    cpus: Optional[str] = None
    leader: Optional[bool] = None
    next_start_us: Optional[int] = None
    step: Optional[int] = None
    steps: Optional[int] = None
    first_step: Optional[int] = None
    first_step_us: Optional[int] = None
    steps_per_s: Optional[float] = None
    speed_ms: Optional[int] = None
    straggler: Optional[str] = None
    saved_step: Optional[int] = None
    saved_path: Optional[str] = None


@dataclass(frozen=True)
class Goodput(Record):
    """Where the time of a run has gone: total_ms is the sum of the others, percent the share of
    working_ms. elasticd-job(5), under speed, defines each part."""

    percent: float
    total_ms: int
    working_ms: int
    waiting_ms: int
    starting_ms: int
    stopping_ms: int
    saving_ms: int
    hanging_ms: int
    repeated_ms: int
    unknown_ms: int


@dataclass(frozen=True)
class Preemption(Record):
    """A notice of preemption. Its state: agreeing (the workers agree on a step), saving, countdown (all
    have saved once and go on until the deadline comes near), leaving, over. step is the agreed step;
    final: the workers leave after it. Of participants (workers that report their steps), saved have
    saved there. notices counts the notices that the agent got."""

    source: str
    reason: str
    time_us: int
    state: Literal["agreeing", "saving", "countdown", "leaving", "over"]
    final: bool
    participants: int
    saved: int
    notices: int
    deadline_us: Optional[int] = None
    step: Optional[int] = None


@dataclass(frozen=True)
class PlatformWatch(Record):
    """A source of notices, its state, and for how many jobs elasticd or the agent watches it."""

    source: str
    state: Literal["off", "waiting", "watching", "failing", "notice"]
    text: str
    jobs: int
    last_us: Optional[int] = None


@dataclass(frozen=True)
class Verdict(Record):
    """The end of a run. exit_status is what "elasticctl wait" returns."""

    result: Literal["succeeded", "failed", "stopped", "preempted", "timeout", "agent_lost"]
    exit_status: int
    message: str
    root_cause: Optional[Failure] = None
    preemption: Optional[Preemption] = None
    goodput: Optional[Goodput] = None


@dataclass(frozen=True)
class Failure(Record):
    """One failed worker. text is the whole failure in one line. exit_status is the run's, if this
    failure is the root cause. reported: the program itself said what went wrong. collateral: the worker
    ended while the agent was stopping it, so it is never a root cause. made_good: the worker alone was
    started again, and the others went on. exit is empty while the agent is still ending the worker.
    error_file is the worker's error.json, if it wrote one; error_file_problem says why the agent could
    not use it. stderr_tail is the end of the worker's stderr."""

    role: str
    index: int
    rank: int
    local_rank: int
    host: str
    attempt: int
    time_us: int
    exit: Exit
    message: str
    collateral: bool
    pid: Optional[int] = None
    text: Optional[str] = None
    exit_status: Optional[int] = None
    reported: Optional[bool] = None
    made_good: Optional[bool] = None
    traceback: Optional[str] = None
    error_file: Optional[str] = None
    error_file_problem: Optional[str] = None
    stderr_tail: Optional[list[str]] = None


@dataclass(frozen=True)
class WorkQueue(Record):
    """The counts of the job's work queue, of all queues together, if the job has used one. over: how
    many tasks have ended so far; put_back: how often a task was put back for another worker; error: the
    queue's error that no caller has got yet."""

    queued: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    over: int
    put_back: int
    workers: int
    error: Optional[str] = None


@dataclass(frozen=True)
class HostRole(Record):
    """The workers of one role on one host: the ranks of them, and their indexes in the role, begin with
    these, and follow without a gap."""

    role: str
    workers: int
    first_rank: int
    first_index: int


@dataclass(frozen=True)
class Host(Record):
    """One host of a group of several. leads: its agent is the group's head. group_rank, first_rank,
    workers and roles: its place in the present round. heard_us: when its last beat came, by the clock of
    the host that was asked. offset_us: what is added to that host's time to get the time of the host
    that leads, uncertainty_us how wrong that may be. Where the head cannot be asked, heard_us is of its
    host, and when it answered the last beat, and offset_us gives the time of the host that was asked.
    topology: rendezvous.topology of its job, where it has one. quarantine_us: until when it is kept out
    of the group, where MIN other hosts are there. state vacant: that host is gone, and its place waits
    for another one, while the others go on."""

    host: str
    state: str
    leads: bool
    address: Optional[str] = None
    group_rank: Optional[int] = None
    first_rank: Optional[int] = None
    workers: Optional[int] = None
    roles: Optional[list[HostRole]] = None
    heard_us: Optional[int] = None
    offset_us: Optional[int] = None
    uncertainty_us: Optional[int] = None
    version: Optional[str] = None
    topology: Optional[str] = None
    quarantine_us: Optional[int] = None


@dataclass(frozen=True)
class Job(JobState, Record):
    """A run of a job. attempt is the number of the group's attempt, from 0. restarts counts restarts
    that the restart budget paid for; max_restarts is -1 if only restart.window limits them.
    restarts_by_cause counts all restarts of the group. origin: the specification's. next_try_us is set
    while the run waits in backoff. worker_count is the number of workers, also if workers is left empty.
    Only elasticd sets agent_silent_since_us, the time of the oldest call that the job's agent has not
    answered, and agent_silent_reason, which names what is in place of its socket. log_bytes: the room
    that the run's logs take on the disk, once it has ended. Of a group of several hosts the workers are
    those of the host that was asked; hosts, preemption, queue and restarts are the group's. note: why
    they are only what that host knows; or that the logs lack lines, for which a full disk had no room.
    silent_workers: how many have missed a heartbeat, where the specification asks for them. etcd_ms: how
    long etcd took for the last answer to this host. goodput, of this host's workers, is set if the
    caller asked for live figures or the run has ended. stragglers: of a group of several hosts, the
    workers of all hosts that are slower than the others, and how, if the caller asked for live figures.
    memory_bytes, cpu_ms: what the job's cgroup has used, where it has one that counts it, if the caller
    asked for live figures. ready: the group runs, and what its specification waits for (ready) has come
    in this attempt, on this host; set while the run has not ended."""

    name: str
    run: str
    state: Literal[
        "pending", "rendezvous", "starting", "running", "stopping", "backoff", "succeeded", "failed",
        "stopped", "preempted"
    ]
    user: str
    uid: int
    created_us: int
    attempt: int
    restarts: int
    max_restarts: int
    command: str
    workers: list[Worker]
    ready: Optional[bool] = None
    reason: Optional[str] = None
    verdict: Optional[Verdict] = None
    started_us: Optional[int] = None
    ended_us: Optional[int] = None
    restarts_by_cause: Optional[dict[str, int]] = None
    next_try_us: Optional[int] = None
    agent_pid: Optional[int] = None
    agent_silent_since_us: Optional[int] = None
    agent_silent_reason: Optional[str] = None
    cwd: Optional[str] = None
    log_dir: Optional[str] = None
    log_bytes: Optional[int] = None
    worker_count: Optional[int] = None
    preemption: Optional[Preemption] = None
    queue: Optional[WorkQueue] = None
    silent_workers: Optional[int] = None
    goodput: Optional[Goodput] = None
    stragglers: Optional[list[str]] = None
    hosts: Optional[list[Host]] = None
    etcd_ms: Optional[int] = None
    memory_bytes: Optional[int] = None
    cpu_ms: Optional[int] = None
    note: Optional[str] = None
    origin: Optional[str] = None


@dataclass(frozen=True)
class Event(Record):
    """seq counts from 1 within a run and never repeats. text is for people, data for programs."""

    seq: int
    time_us: int
    event: str
    text: str
    job: Optional[str] = None
    run: Optional[str] = None
    attempt: Optional[int] = None
    rank: Optional[int] = None
    data: Optional[Any] = None


@dataclass(frozen=True)
class Line(LineData, Record):
    """One line of a worker's output without its newline: text if it is valid UTF-8 without NUL, else
    base64. time_us is when the worker wrote it, if that is known; if only a range of time is known,
    time_us is its start and range_us its length. partial: the line has no newline yet, and later entries
    continue it. missing_lines, missing_bytes: this entry is not a line; it says how many lines and bytes
    rotation has removed, and text says so to people."""

    rank: int
    role: str
    local_rank: int
    stream: Literal["stdout", "stderr"]
    index: Optional[int] = None
    text: Optional[str] = None
    base64: Optional[str] = None
    time_us: Optional[int] = None
    range_us: Optional[int] = None
    attempt: Optional[int] = None
    partial: Optional[bool] = None
    missing_lines: Optional[int] = None
    missing_bytes: Optional[int] = None


@dataclass(frozen=True)
class Budget(Record):
    """How the restart budget stands. max is -1 where only restart.window limits it. by_cause has all
    restarts, counted_by_cause those that count; max_by_cause has the limits that causes have of their
    own."""

    used: int
    max: int
    left: int
    free: int
    by_cause: dict[str, int]
    backoff_ms: int
    window_ms: Optional[int] = None
    window_used: Optional[int] = None
    window_max: Optional[int] = None
    counted_by_cause: Optional[dict[str, int]] = None
    max_by_cause: Optional[dict[str, int]] = None
    next_try_us: Optional[int] = None


@dataclass(frozen=True)
class WorkerResult(Record):
    """One worker's result (as value if it is valid UTF-8 without NUL, else base64), the error that it
    reported, and how it ended. There is one for each worker, of its last start."""

    role: str
    index: int
    rank: int
    start: int
    value: Optional[str] = None
    base64: Optional[str] = None
    error: Optional[Any] = None
    exit: Optional[Exit] = None
    time_us: Optional[int] = None


@dataclass(frozen=True)
class AttachOrder(Record):
    """An answer of Attach: first start, with the command's environment, the rank and the attempt, and
    the umask and the resource limits (as in a job's specification) if there are any; then signal, with a
    signal for the process; at last end, with the reason."""

    order: Literal["start", "signal", "end"]
    env: Optional[list[str]] = None
    cwd: Optional[str] = None
    command: Optional[list[str]] = None
    umask: Optional[int] = None
    limits: Optional[Any] = None
    rank: Optional[int] = None
    attempt: Optional[int] = None
    signal: Optional[str] = None
    text: Optional[str] = None


@dataclass(frozen=True)
class WhyAnswer(Record):
    """The restart budget: which restarts were counted, by cause, how many are left, when the next
    attempt is. Of a group of several hosts it is the group's; note: why it is only what this host knows."""

    budget: Budget
    text: str
    note: Optional[str] = None


Worker.kinds = {"exit": (Exit, False)}
Verdict.kinds = {"root_cause": (Failure, False), "preemption": (Preemption, False), "goodput": (Goodput,
    False)}
Failure.kinds = {"exit": (Exit, False)}
Host.kinds = {"roles": (HostRole, True)}
Job.kinds = {"workers": (Worker, True), "verdict": (Verdict, False), "preemption": (Preemption, False),
    "queue": (WorkQueue, False), "goodput": (Goodput, False), "hosts": (Host, True)}
WorkerResult.kinds = {"exit": (Exit, False)}
WhyAnswer.kinds = {"budget": (Budget, False)}
