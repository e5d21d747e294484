"""mqpg and RocketMQ on one machine, by one program."""
