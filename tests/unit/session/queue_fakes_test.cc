// Not a test: the fake queue room, once a program.
#include "unit/session/fake_queues.inc"
