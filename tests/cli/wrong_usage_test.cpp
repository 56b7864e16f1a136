// Command lines that are wrong in one place: each ends with exit code 2 and one sentence, and writes nothing.

#include <algorithm>
#include <atomic>
#include <regex>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

struct WrongUsage {
  Words words;
  /// Parts of the message.
  Words texts;
};

const std::string kAnyRecord = std::string(LOCKSTEP_GOLDEN) + "/record.json";

/// A flag as `COMMAND --help` lists it.
struct ListedFlag {
  std::string name;
  /// "INT", "FILE"; empty: the flag takes no value.
  std::string value;
};

std::vector<ListedFlag> listed_flags(const std::string& command) {
  const std::string help = test::run({"lockstep", command, "--help"}).output;
  static const std::regex line(R"(\n  (?:-[a-z],)?(--[a-z-]+)(?: ([A-Z][A-Za-z|.]*))?)");
  std::vector<ListedFlag> flags;
  for (std::sregex_iterator match(help.begin(), help.end(), line), end; match != end; ++match)
    flags.push_back({(*match)[1], (*match)[2]});
  return flags;
}

/// What the command needs beside its flags.
Words needed_by(const std::string& command) {
  if (command == "diff") return {kAnyRecord, kAnyRecord};
  if (command == "show") return {kAnyRecord};
  if (command == "report") return {kAnyRecord, "-o", "page.html"};
  if (command == "plot") return {kAnyRecord, "--chart", "throughput", "-o", "chart.svg"};
  if (command == "feed") return {"--address", "ipc:///tmp/lockstep-nobody"};
  return {};
}

bool takes_number(const ListedFlag& flag) {
  return flag.value == "INT" || flag.value == "UINT" || flag.value == "FLOAT" || flag.value == "SHARE";
}

/// Wrong for every number: each flag gets some of them in turn.
constexpr std::array kNoNumbers{"-1",         "inf",   "x",    "nan",  "1e400", "",
                                "3 furlongs", "1e999", "-inf", "0x10", "1,5,x"};

/// For the flags of the command, in turn: a letter too many, nothing behind it, nothing in it, and what is no
/// number. A third of all, which still asks every flag.
void add_generated(const std::string& command, std::vector<WrongUsage>& all) {
  size_t turn = 0;
  size_t made = 0;
  const auto add = [&](const Words& words, const Words& texts) {
    if (made++ % 3 != 0) return;
    Words line{command};
    std::ranges::copy(needed_by(command), std::back_inserter(line));
    std::ranges::copy(words, std::back_inserter(line));
    all.push_back({std::move(line), texts});
  };
  for (const ListedFlag& flag : listed_flags(command)) {
    if (flag.name == "--help") continue;
    add({flag.name + "x"}, {"unknown flag '" + flag.name + "x'; did you mean", flag.name});
    if (flag.value.empty()) {
      add({flag.name + "=maybe"}, {flag.name + " takes no value", "'maybe'"});
      continue;
    }
    if (flag.name != "--chart" && flag.name != "--output" && flag.name != "--address")
      add({flag.name}, {flag.name + " needs a value: "});
    if (!takes_number(flag)) {
      add({flag.name, ""}, {flag.name});
      continue;
    }
    for (int i = 0; i < 3; ++i) {
      const std::string value = kNoNumbers[turn++ % kNoNumbers.size()];
      add({flag.name, value},
          {value.empty() ? flag.name + " was given an empty value" : flag.name + " takes "});
    }
  }
}

const std::vector<WrongUsage> kByHand{
    {{}, {"a command is missing"}},
    {{"bnech"}, {"unknown command 'bnech'", "did you mean bench"}},
    {{"--model", "lenet5"}, {"'--model' stands before a command"}},
    {{"bench", "resnet50"}, {"'lockstep bench' takes no argument 'resnet50'"}},
    {{"bench", "--stile", "ddp"}, {"unknown flag '--stile'; did you mean --style?"}},
    {{"bench", "-model", "lenet5"}, {"unknown flag '-model'; did you mean --model"}},
    {{"bench", "-quiet"}, {"unknown flag '-quiet'; did you mean --quiet"}},
    {{"report", kAnyRecord, "-output", "page.html"}, {"unknown flag '-output'; did you mean --output"}},
    {{"bench", "--rank", "2"}, {"unknown flag '--rank'; did you mean --ranks"}},
    {{"bench", "--steps", "3", "--steps", "4"}, {"--steps takes one value, not 2"}},
    {{"bench", "--ranks", "2147483647"}, {"--ranks takes a whole number from 1 to 1000000"}},
    {{"bench", "--ranks", "1,two"}, {"--ranks takes a whole number", "'two'"}},
    {{"bench", "--ranks", "1.5"}, {"--ranks takes a whole number"}},
    {{"bench", "--model", "lenet5", "--ranks", "1000000"}, {"1000000 ranks need"}},
    {{"bench", "--prefetch", "2147483647", "--input", "queue"},
     {"--prefetch takes a whole number from 1 to"}},
    {{"bench", "--input-workers", "100000", "--input", "queue"},
     {"--input-workers takes a whole number from 1 to"}},
    {{"bench", "--momentum", "-5"}, {"--momentum takes a number from 0 and below 1, not '-5'"}},
    {{"bench", "--momentum", "1"}, {"--momentum takes"}},
    {{"bench", "--weight-decay", "-1"}, {"--weight-decay takes a number of 0 or more, not '-1'"}},
    {{"bench", "--seed", "-1"}, {"--seed takes a whole number from 0 to 9223372036854775807, not '-1'"}},
    {{"bench", "--seed", "18446744073709551616"}, {"--seed takes a whole number from 0 to"}},
    {{"bench", "--lr", "inf"}, {"--lr takes a number of 0 or more, not 'inf'"}},
    {{"bench", "--lr", "1e400"}, {"--lr takes a number of 0 or more"}},
    {{"bench", "--bucket-mb", "inf"}, {"--bucket-mb takes a size"}},
    {{"bench", "--bucket-mb", "25furlongs"}, {"--bucket-mb takes a size", "(25, 25MB or 1GB)"}},
    {{"bench", "--timeout", "30days"}, {"--timeout takes a time", "(30, 30s or 5min)"}},
    {{"bench", "--batch", "1e9"}, {"--batch takes a whole number from 1 to 1000000"}},
    {{"bench", "--image-size", "0"}, {"--image-size takes"}},
    {{"bench", "--image-size", "65000"}, {"resnet50 takes images from"}},
    {{"bench", "--batch", "1000000", "--accumulate", "1000"}, {"resnet50", "available"}},
    {{"bench", "--global-batch", "1000000000", "--accumulate", "1000", "--ranks", "1"},
     {"resnet50", "available"}},
    {{"bench", "--model", "resnet18", "--input", "queue", "--prefetch", "1000", "--batch", "1000"},
     {"resnet18", "available"}},
    {{"bench", "--model", ""}, {"--model was given an empty value"}},
    {{"bench", "--model", "resnt50"}, {"unknown model 'resnt50'", "did you mean resnet50"}},
    {{"bench", "--strategy", "dpp"}, {"unknown strategy 'dpp'", "did you mean ddp"}},
    {{"bench", "--backend", "glo"}, {"unknown backend 'glo'", "did you mean gloo"}},
    {{"bench", "--device", "gpu"}, {"unknown device 'gpu'", "did you mean cuda"}},
    {{"bench", "--kernels", "fussed"}, {"unknown kernels 'fussed'", "did you mean fused"}},
    {{"bench", "--precision", "fp23"}, {"unknown precision 'fp23'", "fp32"}},
    {{"bench", "--input", "devise"}, {"unknown input 'devise'", "device"}},
    {{"bench", "--memory-format", "nchw"}, {"--memory-format takes channels_last or contiguous, not 'nchw'"}},
    {{"bench", "--launch", "thread"}, {"--launch takes auto, processes or threads, not 'thread'"}},
    {{"bench", "--bind", "cores"}, {"--bind takes core, numa or none, not 'cores'"}},
    {{"bench", "--interface", "nosuch0"},
     {"--interface takes a network interface or an address", "'nosuch0'"}},
    {{"train", "--interface", "192.0.2.1"}, {"--interface takes a network interface or an address"}},
    {{"bench", "--tune", "bucket"}, {"--tune takes buckets, not 'bucket'"}},
    {{"bench", "--baseline", "ddp:x"}, {"--baseline ddp:x", "is not a number of ranks"}},
    {{"bench", "--preset", "pytorch"}, {"unknown preset 'pytorch'", "lockstep info presets"}},
    {{"bench", "--style", "theanos"}, {"unknown style 'theanos'", "theano"}},
    {{"bench", "--epoch-size", "0"},
     {"--epoch-size takes a whole number from 1 to 1000000000000", "not '0'"}},
    {{"bench", "--append"}, {"--append needs --json FILE"}},
    {{"bench", "--overlap", "of", "--strategy", "replicated"}, {"--overlap takes on or off, not 'of'"}},
    {{"bench", "--wire", "fp8"}, {"--wire takes fp32, fp16 or bf16, not 'fp8'"}},
    {{"bench", "--cycle-ms", "0", "--strategy", "horovod"}, {"--cycle-ms takes a time above 0"}},
    {{"bench", "--fusion-mb", "1e12", "--strategy", "horovod"}, {"--fusion-mb takes a size above 0"}},
    {{"bench", "--fusion-mb", "64", "--strategy", "ddp"}, {"--fusion-mb has no effect on the strategy ddp"}},
    {{"bench", "--json", "nowhere/r.json", "--model", "lenet5"}, {"--json", "No such file"}},
    {{"bench", "--json", ".", "--model", "lenet5"}, {"--json", "it is a folder"}},
    {{"bench", "--json", "x", "--trace", "x", "--model", "lenet5"}, {"--json and --trace both write"}},
    {{"bench", "--json", kAnyRecord + "/x.json", "--model", "lenet5"}, {"--json", "Not a directory"}},
    {{"train", "--batch", "0"}, {"--batch takes a whole number", "'lockstep train --help'"}},
    {{"train", "--batch", "4,8"}, {"--batch takes a whole number", "'4,8'"}},
    {{"train", "--lr", "0"}, {"--lr takes a number above 0, not '0'"}},
    {{"train", "--epochs", "0"}, {"--epochs takes a whole number from 1 to"}},
    {{"train", "--decay-factor", "1.5"}, {"--decay-factor takes a number above 0 and up to 1"}},
    {{"train", "--decay-epochs", "30,0"}, {"--decay-epochs takes a whole number"}},
    {{"train", "--decay-epochs", "60,30", "--schedule", "step"}, {"--decay-epochs must be ascending"}},
    {{"train", "--warmup-epochs", "9"}, {"--warmup-epochs must lie between"}},
    {{"train", "--schedule", "cosin"}, {"--schedule takes constant, step or cosine, not 'cosin'"}},
    {{"train", "--checkpoint", "c.pt", "--checkpoint-every", "x"},
     {"--checkpoint-every takes epoch, or a whole number"}},
    {{"train", "--checkpoint", "c.pt", "--checkpoint-every", "0"},
     {"--checkpoint-every takes epoch, or a whole number"}},
    {{"train", "--checkpoint-every", "3"}, {"--checkpoint-every means nothing without --checkpoint"}},
    {{"train", "--resume", ""}, {"--resume was given an empty value"}},
    {{"train", "--strategy", "all"}, {"--strategy all"}},
    {{"train", "--strategy", "independent", "--ranks", "2"}, {"independent combines nothing"}},
    {{"train", "--data", "nowhere"}, {"there is no folder 'nowhere'"}},
    {{"train", "--input", "dataset"}, {"needs --data FOLDER"}},
    {{"train", "--model", "lenet5", "--checkpoint", "nowhere/c.pt"}, {"--checkpoint", "No such file"}},
    {{"verify", "--strategy", "single", "--ranks", "2"},
     {"--strategy single trains on one rank", "--ranks 2"}},
    {{"verify", "--steps", "0"}, {"--steps takes a whole number", "'lockstep verify --help'"}},
    {{"verify", "--export", "nowhere", "--model", "mlp", "--strategy", "ddp", "--ranks", "1"},
     {"--export", "is not a folder"}},
    {{"info", "model"}, {"'lockstep info model' needs the network that it is to describe"}},
    {{"info", "model", "resnet18", "more"}, {"'lockstep info' takes no argument 'more'"}},
    {{"info", "modells"}, {"unknown topic 'modells'", "models"}},
    {{"info", "models", "more"}, {"'lockstep info models' takes no argument 'more'"}},
    {{"diff"}, {"'lockstep diff' needs base"}},
    {{"diff", kAnyRecord}, {"'lockstep diff' needs test"}},
    {{"diff", kAnyRecord, kAnyRecord, "--threshold", "inf"},
     {"--threshold takes a share from 0 and below 1 (2% or 0.02), not 'inf'"}},
    {{"diff", kAnyRecord, kAnyRecord, "--threshold", "3"}, {"--threshold takes a share", "not '3'"}},
    {{"diff", kAnyRecord, kAnyRecord, "--by", "p33"}, {"--by takes p50, p75, p90, p95 or p99, not 'p33'"}},
    {{"diff", kAnyRecord, kAnyRecord, "--fail-on", "anything"},
     {"--fail-on takes regression, not 'anything'"}},
    {{"show"}, {"'lockstep show' needs file"}},
    {{"show", ""}, {"file was given an empty value"}},
    {{"show", kAnyRecord, kAnyRecord}, {"'lockstep show' takes no argument"}},
    {{"show", kAnyRecord, "--epoch-size", "0"},
     {"--epoch-size takes a whole number from 1 to 1000000000000"}},
    {{"show", kAnyRecord, "--csv", "nowhere/x.csv"}, {"--csv", "No such file"}},
    {{"report", kAnyRecord}, {"'lockstep report' needs --output"}},
    {{"report", "-o", "page.html"}, {"no file to draw"}},
    {{"plot", kAnyRecord, "--chart", "sped", "-o", "x.svg"}, {"--chart takes", "speedup"}},
    {{"plot", kAnyRecord, "--chart", "speedup", "--width", "nan", "-o", "x.svg"},
     {"--width takes a number from"}},
    {{"plot", kAnyRecord, "--chart", "speedup", "--width", "1e6", "-o", "x.svg"},
     {"--width takes a number from"}},
    {{"feed"}, {"'lockstep feed' needs --address"}},
    {{"feed", "--address", "nonsense"}, {"--address nonsense", "neither ipc:// nor tcp://"}},
    {{"feed", "--address", "tcp://127.0.0.1:5", "--timeout", "inf"}, {"--timeout takes a time above 0"}},
    {{"feed", "--address", "tcp://127.0.0.1:5", "--ranks", "5000"},
     {"--ranks takes a whole number from 1 to"}},
    {{"feed", "--address", "tcp://127.0.0.1:65535", "--ranks", "2"}, {"there is no port 65536 for rank 1"}},
    {{"feed", "--address", "tcp://127.0.0.1:5", "--channels", "2"}, {"--channels takes 1 or 3, not '2'"}},
    {{"feed", "--address", "tcp://127.0.0.1:5", "--batch", "1000000", "--image-size", "65536"},
     {"--batch 1000000", "--image-size"}},
    {{"feed", "--address", "tcp://127.0.0.1:5", "--batch", "1000000", "--image-size", "100000"},
     {"--image-size takes"}},
    {{"topo", "--json", "nowhere/x.json"}, {"--json", "No such file"}},
    {{"topo", "--from", ""}, {"--from was given an empty value"}},
};

/// What is wrong with how lockstep took a wrong command line; empty: nothing.
std::string fault_in(const WrongUsage& wrong, const test::Finished& finished) {
  const std::string& text = finished.error;
  if (finished.exit_code != 2) return "the exit code is " + std::to_string(finished.exit_code);
  if (!finished.output.empty()) return "something went to standard output";
  if (!text.starts_with("lockstep: error: ")) return "it does not begin as an error does";
  if (std::ranges::count(text, '\n') > 2) return "it is more than a sentence and advice";
  for (const char* raw : {"std::", "filesystem error", "terminate", "bad_alloc", "Could not convert"})
    if (text.find(raw) != std::string::npos) return std::string("it says ") + raw;
  for (const std::string& part : wrong.texts)
    if (text.find(part) == std::string::npos) return "it does not say: " + part;
  return "";
}

TEST(WrongUsageTest, every_wrong_command_line_is_answered_with_one_sentence) {
  std::vector<WrongUsage> all = kByHand;
  for (const char* command : {"bench", "train", "verify", "diff", "report", "show", "plot", "feed", "topo"})
    add_generated(command, all);
  EXPECT_GE(all.size(), 300U);
  const test::ScratchFolder folder;
  // Most of each run is loading LibTorch.
  std::atomic<size_t> next{0};
  const auto run_some = [&] {
    for (size_t i = next++; i < all.size(); i = next++) {
      Words command{"env", "-C", folder.path(""), LOCKSTEP_PROGRAM};
      std::ranges::copy(all[i].words, std::back_inserter(command));
      const test::Finished finished = test::run(command, {}, 30);
      const std::string fault = fault_in(all[i], finished);
      if (fault.empty()) continue;
      std::ostringstream line;
      for (const std::string& word : all[i].words) line << ' ' << (word.empty() ? "''" : word);
      ADD_FAILURE() << "lockstep" << line.str() << "\n" << fault << "\n" << finished.error;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back(run_some);
  }
  EXPECT_EQ(folder.files(), 0U);
}

/// One command line that is right.
std::string first_word_after(const std::string& text, const std::string& before) {
  const size_t at = text.find(before);
  if (at == std::string::npos) return "";
  std::istringstream rest(text.substr(at + before.size()));
  std::string word;
  rest >> word;
  return word;
}

TEST(RightUsageTest, numbers_may_have_units_and_exponents) {
  const test::Finished plan = test::run({"lockstep", "bench", "--model", "lenet5", "--ranks", "2", "--batch",
                                         "1e1", "--bucket-mb", "1GB", "--timeout", "1min", "--max-time",
                                         "2min", "--steps", "1e2", "--precision-target", "3 %", "--dry-run"});
  EXPECT_EQ(plan.exit_code, 0) << plan.error;
  EXPECT_THAT(plan.output, testing::HasSubstr("x 10"));
  EXPECT_EQ(first_word_after(plan.output, "lenet5 ddp 2 ranks x 10"), "1024");
}

TEST(RightUsageTest, help_that_cannot_be_written_is_a_failure) {
  const std::string program = LOCKSTEP_PROGRAM;
  const test::Finished full = test::run({"sh", "-c", program + " bench --help > /dev/full"});
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_THAT(full.error, testing::HasSubstr("standard output: No space left on device"));
}

}  // namespace
}  // namespace lockstep
