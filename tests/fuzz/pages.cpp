#include "fuzz/pages.h"

#include <stdexcept>
#include <string>

#include "lockstep/plots/frame.h"
#include "lockstep/plots/page.h"

#include "plots/xml_check.h"

namespace lockstep::fuzz {
namespace {

void require_well_formed(std::string_view text, const std::string& name) {
  if (const std::string fault = plots::xml_fault(text); !fault.empty()) {
    throw std::logic_error(name + ": " + fault);
  }
}

}  // namespace

void draw_all(results::Sources sources) {
  results::complete(sources);
  const std::string page = plots::report_page(sources);
  const size_t begin = page.find("<main>"), end = page.rfind("</main>");
  require_well_formed(std::string_view(page).substr(begin, end + 7 - begin), "the page");
  for (const auto& [name, draw] : plots::charts().entries()) {
    const plots::ChartForm form{.id = name};
    const plots::Chart chart = draw(sources, form);
    if (chart.drawn()) require_well_formed(plots::standalone_svg(chart, form), name);
  }
}

}  // namespace lockstep::fuzz
