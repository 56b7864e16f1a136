// Plays a rank, or the parent that starts them, for the tests of launch.
//
//   launch_rank_program --ranks 2 [--mpirun] ...   starts ranks with the same arguments
//   launch_rank_program ...                        is the rank that its environment says
//
// Each rank writes FOLDER/pid.RANK once it has completed 50 steps of 10 ms,
// when some heartbeats have told of it.

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/launch/local_processes.h"
#include "lockstep/launch/rank_environment.h"
#include "lockstep/launch/rank_session.h"
#if LOCKSTEP_TORCH_PARTS
#include "lockstep/launch/tcp_store.h"
#endif

namespace {

using namespace lockstep;
using namespace std::chrono_literals;

constexpr int kReadyStep = 50;

struct Options {
  int ranks = 0;
  bool mpirun = false;
  std::string folder;
  std::string event = "none";
  int who = 1;
  int at = 60;
  int steps = 1000000;
  double timeout_s = 30;
  double join_timeout_s = 15;
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app;
  app.add_option("--ranks", options.ranks);
  app.add_flag("--mpirun", options.mpirun);
  app.add_option("--folder", options.folder);
  app.add_option(
      "--event", options.event,
      "what happens to --who after step --at; deaf: does not leave by itself; slow: takes its time to keep");
  app.add_option("--who", options.who);
  app.add_option("--at", options.at);
  app.add_option("--steps", options.steps);
  app.add_option("--timeout", options.timeout_s);
  app.add_option("--join-timeout", options.join_timeout_s);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return options;
}

void say(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::fflush(stderr);
}

int parent(const Options& options) {
  launch::LocalOptions local;
  local.ranks = options.ranks;
  local.through_mpirun = options.mpirun;
  local.timeout = std::chrono::duration<double>(options.timeout_s);
  local.grace = 1s;
  local.on_stranger = say;
  const launch::Supervision result = launch::run_local_ranks(local);
  if (result) say("parent: " + result.what);
  if (!result.warning.empty()) say("warning: " + result.warning);
  if (!result.advice.empty()) say("advice: " + result.advice);
  for (const launch::LostRank& lost : result.lost) say("lost: " + std::to_string(lost.rank));
  return result.exit_code;
}

void happen(const std::string& event, launch::RankSession& session) {
  if (event == "fail") throw Error("the loss is not finite", "Lower the learning rate.");
  if (event == "config") throw ConfigError("there is no such model");
  if (event == "disturbed") throw CommError("connection reset by peer");
  if (event == "exit") std::_Exit(7);
  if (event == "goodbye-exit") {
    session.finish();
    std::_Exit(3);
  }
  if (event == "goodbye-hang") {
    session.finish();
    std::this_thread::sleep_for(1h);
  }
}

int rank(const launch::RankEnvironment& environment, const Options& options) {
  // Before it has come to the others.
  if (options.event == "killed-early" && environment.rank == options.who) ::raise(SIGKILL);
  if (options.event == "late") std::this_thread::sleep_for(600ms);
  if (options.event == "exits-early" && environment.rank == options.who) std::_Exit(7);
  launch::RankSession::Options session_options;
  session_options.timeout = std::chrono::duration<double>(options.timeout_s);
  session_options.join_timeout = std::chrono::duration<double>(options.join_timeout_s);
  session_options.on_stranger = say;
#if LOCKSTEP_TORCH_PARTS
  session_options.open_agent_store = &launch::open_agent_store;
#endif
  session_options.on_departure = [&](const launch::Departure& departure) {
    if (options.event == "deaf" && environment.rank == options.who) std::this_thread::sleep_for(1h);
    if (options.event == "slow" && environment.rank == options.who) std::this_thread::sleep_for(300ms);
    const std::string me = "rank " + std::to_string(environment.rank);
    write_file_atomically(
        std::filesystem::path(options.folder) / ("kept." + std::to_string(environment.rank)), departure.what);
    if (departure.prints) say(me + " says: " + departure.what);
  };
  launch::RankSession session(environment, session_options);
  try {
    comm::Store& store = session.join();
    session.progress().begin("resnet50 ddp " + std::to_string(environment.world) + " ranks");
    for (int step = 1; step <= options.steps; ++step) {
      std::this_thread::sleep_for(10ms);
      session.progress().completed(step);
      if (step == kReadyStep) {
        write_file_atomically(
            std::filesystem::path(options.folder) / ("pid." + std::to_string(environment.rank)),
            std::to_string(::getpid()));
      }
      if (step == options.at && environment.rank == options.who) happen(options.event, session);
    }
    if (!environment.served_by_parent()) {
      if (store.add("done", 1) == environment.world) store.set("all done", "1");
      store.get("all done", 15s);
    }
    session.finish();
    return 0;
  } catch (const std::exception& error) {
    const launch::Departure departure = session.fail(error);
    if (departure.prints) say("rank " + std::to_string(environment.rank) + " says: " + departure.what);
    session.leave(departure.exit_code);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  try {
    const auto environment = launch::detect_environment();
    return environment ? rank(*environment, options) : parent(options);
  } catch (const ConfigError& error) {
    say(std::string("config error: ") + error.what());
    return kExitUsage;
  } catch (const BackendMissing& error) {
    say(std::string("backend missing: ") + error.what() + " " + error.advice());
    return kExitBackendMissing;
  } catch (const std::exception& error) {
    say(std::string("error: ") + error.what());
    return kExitFailed;
  }
}
