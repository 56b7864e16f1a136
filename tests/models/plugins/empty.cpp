// A shared object without networks.

extern "C" int lockstep_test_nothing() {
  return 0;
}
