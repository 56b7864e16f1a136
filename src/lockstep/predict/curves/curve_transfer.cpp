#include "lockstep/predict/curves/curve_transfer.h"

#include <cmath>

#include "lockstep/predict/jobs/overlap.h"

namespace lockstep::predict {
namespace {

constexpr double kBucketBytes = 25 << 20;
constexpr double kForwardShare = 1.0 / 3;
/// Computing is at least this share of the smallest count's step, however dear the table's collectives are.
constexpr double kLeastComputing = 0.05;

struct Communication {
  double exposed_s = 0, hidden_s = 0;
};

Communication communication(const CollectiveTable& table, const CurvePoint& point, double bytes,
                            double computing_s) {
  if (point.gpus == 1) return {};
  const int buckets = static_cast<int>(std::ceil(bytes / kBucketBytes));
  // A network alone joins all GPUs of a curve.
  const int hosts = table.has_points() ? point.nodes : point.gpus;
  const Placement placement{point.gpus, (point.gpus + hosts - 1) / hosts};
  const double cost_s = table.time(CollectiveKind::kAllReduce, placement, bytes / buckets).total_s();
  std::vector<QueuedCollective> queue;
  for (int bucket = 1; bucket <= buckets; ++bucket) {
    const double share = kForwardShare + (1 - kForwardShare) * bucket / buckets;
    queue.push_back({.ready_s = share * computing_s, .cost_s = cost_s});
  }
  const OverlapEnd end = overlap(queue, computing_s, {});
  const double exposed_s = end.communicated_s() - end.computed_s;
  return {exposed_s, buckets * cost_s - exposed_s};
}

}  // namespace

bool add_transfer(Curve& curve, const CollectiveTable& table) {
  const bool batches_are_known =
      std::ranges::all_of(curve.points, [](const CurvePoint& point) { return point.batch_per_gpu > 0; });
  if (curve.parameters <= 0 || !batches_are_known) return false;
  const double bytes = curve.parameters * (curve.precision == "fp16 all-reduce" ? 2 : 4);
  const CurvePoint& first = curve.points.front();
  const double step_s = first.cost_s() * first.batch_per_gpu;
  double computing_s = step_s;
  // More computing hides more, by less than it is more.
  for (int i = 0; i < 50; ++i)
    computing_s = std::max(kLeastComputing * step_s,
                           step_s - communication(table, first, bytes, computing_s).exposed_s);
  for (CurvePoint& point : curve.points) {
    const Communication found =
        communication(table, point, bytes, computing_s * point.batch_per_gpu / first.batch_per_gpu);
    point.transfer_s = found.exposed_s;
    point.hidden_s = found.hidden_s;
  }
  return true;
}

}  // namespace lockstep::predict
