#include "lockstep/plots/chart.h"

#include <fmt/format.h>

#include "lockstep/plots/canvas.h"
#include "lockstep/plots/text.h"

namespace lockstep::plots {
namespace {

constexpr const char* kFonts =
    "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue','Liberation Sans',Arial,sans-serif";
constexpr double kMargin = 16;

/// Title and description, which screen readers read instead of the marks.
std::string accessible_text(const Chart& chart, const ChartForm& form) {
  return fmt::format("<title id=\"{0}-t\">{1}</title>\n<desc id=\"{0}-d\">{2}</desc>\n", form.id,
                     escape(chart.title), escape(chart.description));
}

/// The <svg> element. Its viewBox scales; `more` may set a size, which a file needs and a page does not.
std::string opening(const ChartForm& form, double width, double height, std::string_view more) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "aria-labelledby=\"{2}-t {2}-d\" "
      "font-family=\"{3}\" font-size=\"{4}\"{5}>\n",
      coordinate(width), coordinate(height), form.id, kFonts, coordinate(kTextSize), more);
}

}  // namespace

Chart missing_chart(std::string title, std::string reason, std::string advice) {
  return {.title = std::move(title), .missing = std::move(reason), .advice = std::move(advice)};
}

Chart drawn(Chart chart, const Canvas& canvas, const ChartForm& form, double height) {
  chart.markup = canvas.markup();
  chart.width = form.width;
  chart.height = height;
  return chart;
}

const Registry<DrawChart>& charts() {
  static const Registry<DrawChart> all("chart", "lockstep plot --help",
                                       {{"speedup", &speedup_chart},
                                        {"throughput", &throughput_chart},
                                        {"setting", &setting_chart},
                                        {"phases", &phases_chart},
                                        {"distribution", &distribution_chart},
                                        {"series", &series_chart},
                                        {"buckets", &buckets_chart},
                                        {"memory", &memory_chart},
                                        {"loss", &loss_chart},
                                        {"accuracy", &accuracy_chart}});
  return all;
}

std::string inline_svg(const Chart& chart, const ChartForm& form) {
  return opening(form, chart.width, chart.height, "") + accessible_text(chart, form) + chart.markup +
         "</svg>\n";
}

std::string standalone_svg(const Chart& chart, const ChartForm& form) {
  const double width = chart.width + 2 * kMargin;
  // Three canvases, since the ground must be as high as all of it and lie below it.
  Canvas above(form.id + "-above"), below(form.id + "-below");
  double top = kMargin;
  top += 8 + above.paragraph({kMargin + 4, top + 14}, chart.title, chart.width,
                             {.size = kHeadingSize, .bold = true});
  double bottom = top + chart.height + 4;
  for (const std::string& note : chart.notes) {
    bottom += below.paragraph({kMargin + 4, bottom + 12}, note, chart.width - 8,
                              {.colour = Colour::kMuted, .size = kSmallTextSize});
  }
  const double height = bottom + kMargin;
  Canvas background(form.id + "-ground");
  background.rect({0, 0, width, height}, Colour::kSurface);
  const std::string size = fmt::format(" width=\"{}\" height=\"{}\"", coordinate(width), coordinate(height));
  return opening(form, width, height, size) + accessible_text(chart, form) +
         fmt::format("<style>{}</style>\n", dark_mode_css()) + background.markup() + above.markup() +
         fmt::format("<g transform=\"translate({} {})\">\n{}</g>\n", coordinate(kMargin), coordinate(top),
                     chart.markup) +
         below.markup() + "</svg>\n";
}

}  // namespace lockstep::plots
