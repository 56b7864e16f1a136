#pragma once

#include "lockstep/plots/canvas.h"
#include "lockstep/plots/chart.h"

namespace lockstep::plots {

/// Speed-up over workers, both on log2 axes, with the line of a perfect one.
Chart speedup_chart(const Sources& sources, const ChartForm& form);
/// Images per second of the job over workers, with intervals.
Chart throughput_chart(const Sources& sources, const ChartForm& form);
/// A bar for each run with a breakdown: where a step's time goes.
Chart phases_chart(const Sources& sources, const ChartForm& form);
/// A row for each run: how its step times are distributed.
Chart distribution_chart(const Sources& sources, const ChartForm& form);
/// Step times in the order in which they ran, warm-up and its cut included.
Chart series_chart(const Sources& sources, const ChartForm& form);
/// When each bucket of a step was ready, under way and combined, per rank.
Chart buckets_chart(const Sources& sources, const ChartForm& form);
/// Peak memory of the ranks of each run.
Chart memory_chart(const Sources& sources, const ChartForm& form);

/// The chart with the marks of `canvas`, as wide as its form and `height` high.
Chart drawn(Chart chart, const Canvas& canvas, const ChartForm& form, double height);

}  // namespace lockstep::plots
