"""Who is silent loses what he holds: how long a leader's work, or a member's queue, stands still."""
