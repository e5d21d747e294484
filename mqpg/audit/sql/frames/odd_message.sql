-- The messages that are not simply committed. Few are so, and several kinds ask for them.
select m.* from message as m where m.state not in ('committed', 'final') or m.waiting or m.unscheduled
