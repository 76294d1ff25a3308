//! The system as people run it: real processes of the one binary, a real nats-server, real HTTP, real kills.
