/// write_pages DIR: the pages and drawings that check_pages.py looks at in a browser.
#include <cstdio>
#include <filesystem>

#include "lockstep/base/file.h"
#include "lockstep/plots/frame.h"
#include "lockstep/plots/page.h"

#include "plots/sample_records.h"

using namespace lockstep;
using namespace lockstep::plots;

namespace {

void write_charts(const std::filesystem::path& folder, const Sources& sources) {
  for (const auto& [name, draw] : charts().entries()) {
    for (const int width : {640, static_cast<int>(kNarrowestChart)}) {
      const ChartForm form{static_cast<double>(width), name};
      if (const Chart chart = draw(sources, form); chart.drawn()) {
        write_file_atomically(folder / (name + '-' + std::to_string(width) + ".svg"),
                              standalone_svg(chart, form));
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  std::vector<NamedRecord> published = shipped_records();
  const auto page = [&](const char* name, Sources sources) {
    results::complete(sources);
    write_file_atomically(folder / name, report_page(sources));
  };
  page("sweep.html", {{{"sweep", sweep_record()}}, {}});
  page("published.html", {{{"sweep", sweep_record()}}, {published[0]}, {sample_forecast(sweep_record())}});
  page("all-published.html", {{{"sweep", sweep_record()}}, published});
  page("two.html", {{{"before", sweep_record()}, {"after", sweep_record(0.93)}}, {}});
  page("networks.html", {{{"networks", networks_record()}}, {}});
  page("plain.html", {{{"plain", plain_record()}}, {}});
  page("crowded.html", {{{"crowded", crowded_record()}}, {}});
  page("huge.html", {{{"huge", huge_record(10000)}}, {}});
  page("broken.html", {{{kHostileText, broken_record()}}, {}});
  page("setting.html", {{{"setting", bucket_record()}}, {}});
  page("training.html", {{{"training", training_record()}}, {}});
  page("empty.html", {});
  write_charts(folder, {{{"setting", bucket_record()}, {"training", training_record()}}, {}});
  write_charts(folder, {{{"sweep", sweep_record()}}, {published[0]}});
  return 0;
}
