#pragma once

namespace lockstep {

/// Work of a training step beside its forward and backward passes.
enum class Activity {
  /// Moves data between ranks or devices, or waits for it.
  kCommunicating,
  /// Applies the optimizer.
  kApplying
};

/// Receives the times at which the thread that trains begins and ends an activity. Activities do not overlap.
class ActivityListener {
 public:
  virtual ~ActivityListener() = default;
  virtual void begins(Activity activity) = 0;
  virtual void ends() = 0;
};

/// An activity that lasts as long as this object. Without a listener it does nothing.
class ActivityScope {
 public:
  ActivityScope(ActivityListener* listener, Activity activity) : listener_(listener) {
    if (listener_ != nullptr) listener_->begins(activity);
  }
  ~ActivityScope() {
    if (listener_ != nullptr) listener_->ends();
  }
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;

 private:
  ActivityListener* listener_;
};

}  // namespace lockstep
