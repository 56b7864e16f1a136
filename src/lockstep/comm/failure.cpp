#include "lockstep/comm/failure.h"

#include <exception>

#include "lockstep/base/error.h"

namespace lockstep::comm {

void Failure::raise() const {
  switch (kind) {
    case Kind::kTimeout:
      throw TimeoutError(what, advice);
    case Kind::kPeerLost:
      throw PeerLostError(what, advice);
    case Kind::kConfig:
      throw ConfigError(what, advice);
    case Kind::kOther:
      throw Error(what, advice);
    case Kind::kComm:
      break;
  }
  throw CommError(what, advice);
}

Failure Failure::from_current_exception() {
  try {
    throw;
  } catch (const TimeoutError& error) {
    return {Kind::kTimeout, error.what(), error.advice()};
  } catch (const PeerLostError& error) {
    return {Kind::kPeerLost, error.what(), error.advice()};
  } catch (const CommError& error) {
    return {Kind::kComm, error.what(), error.advice()};
  } catch (const ConfigError& error) {
    return {Kind::kConfig, error.what(), error.advice()};
  } catch (const Error& error) {
    return {Kind::kOther, error.what(), error.advice()};
  } catch (const std::exception& error) {
    return {Kind::kComm, error.what(), ""};
  } catch (...) {
    return {Kind::kComm, "an exception of unknown type", ""};
  }
}

}  // namespace lockstep::comm
