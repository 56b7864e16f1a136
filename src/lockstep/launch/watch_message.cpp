#include "lockstep/launch/watch_message.h"

namespace lockstep::launch {

json to_message(const LostRank& lost) {
  return {{"rank", lost.rank},     {"kind", static_cast<int>(lost.kind)},
          {"host", lost.host},     {"pid", lost.pid},
          {"reason", lost.reason}, {"detail", lost.detail},
          {"advice", lost.advice}, {"step", lost.step},
          {"label", lost.label},   {"exit_code", lost.exit_code}};
}

LostRank lost_rank_from(const json& message) {
  return {.rank = message.at("rank"),
          .kind = static_cast<LostRank::Kind>(message.at("kind").get<int>()),
          .host = message.at("host"),
          .pid = message.at("pid"),
          .reason = message.at("reason"),
          .detail = message.at("detail"),
          .advice = message.at("advice"),
          .step = message.at("step"),
          .label = message.at("label"),
          .exit_code = message.at("exit_code")};
}

}  // namespace lockstep::launch
