#pragma once

#include "lockstep/plots/canvas.h"
#include "lockstep/plots/chart.h"

namespace lockstep::plots {

/// Speed-up over workers, both on log2 axes, with the line of perfect scaling.
Chart speedup_chart(const Sources& sources, const ChartForm& form);
/// Images per second of the job over workers, with intervals.
Chart throughput_chart(const Sources& sources, const ChartForm& form);
/// A bar for each run with a breakdown, divided into the phases of a step.
Chart phases_chart(const Sources& sources, const ChartForm& form);
/// Distribution of the step times, a row for each run.
Chart distribution_chart(const Sources& sources, const ChartForm& form);
/// Step times in the order in which the steps ran, warm-up and its end included.
Chart series_chart(const Sources& sources, const ChartForm& form);
/// Timeline of the buckets of a step for each rank: ready, waiting for others, in transfer.
Chart buckets_chart(const Sources& sources, const ChartForm& form);
/// Peak memory of the ranks of each run.
Chart memory_chart(const Sources& sources, const ChartForm& form);

/// The chart with the marks of `canvas`, as wide as its form and `height` high.
Chart drawn(Chart chart, const Canvas& canvas, const ChartForm& form, double height);

}  // namespace lockstep::plots
