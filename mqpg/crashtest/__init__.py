"""`mqpg crashtest`: your handler or producer, killed before and after every statement it sends.

Each crash point has a run of its own, on a scratch database: a real process runs your code until it
is killed (SIGKILL) at that point, and a fresh process resumes its work. Afterwards nothing may be
lost or doubled.

* options, scratch: what is tried, and the databases in which it happens;
* wire, proxy, fault_injector: the statements on their way to the server, and the kill;
* fork_server, child, watch, audit_hook, control: the process that is killed, and what it reports;
* process_run, run: one crash point, and all of them;
* snapshot, compare, judge, advice, report: what came of it, and what to do about it.
"""
