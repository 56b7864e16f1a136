#include "comm/rank_world.h"

int main(int argc, char** argv) {
  return lockstep::comm::run_as_ranks(argc, argv);
}
