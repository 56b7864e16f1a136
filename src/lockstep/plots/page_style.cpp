#include "lockstep/plots/page.h"
#include "lockstep/plots/palette.h"

namespace lockstep::plots {
namespace {

/// Colours as variables, so that dark mode changes them in one place.
constexpr const char* kColours = R"(
:root{color-scheme:light dark;--ink:#1b1f24;--muted:#57606a;--line:#d9dee4;--page:#f6f7f9;--card:#fff;--accent:#0072b2;
--bar:#0072b2;--track:#0072b21f;--warn:#d55e00;--code:#eef1f4}
@media screen and (prefers-color-scheme:dark){:root{--ink:#e8eaed;--muted:#a8b1bb;--line:#313943;--page:#0f1216;
--card:#161a20;--accent:#7cc6ef;--bar:#3f9bdc;--track:#3f9bdc2e;--warn:#ec7a34;--code:#222931}}
)";

/// Everything for screens: cards on a page, charts side by side from 1080 px on.
constexpr const char* kLayout = R"(
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue','Liberation Sans',Arial,sans-serif}
main{max-width:1320px;margin:0 auto;padding:36px 28px 48px}
h1{font-size:30px;line-height:1.2;margin:0 0 6px;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:21px;line-height:1.3;margin:44px 0 14px;letter-spacing:-.005em}
h3{font-size:16px;margin:0 0 10px;overflow-wrap:anywhere}
p{margin:0 0 12px;max-width:78ch;overflow-wrap:anywhere}
a{color:var(--accent)}
code{font:.9em/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace;background:var(--code);
border-radius:4px;padding:.1em .35em;overflow-wrap:anywhere}
pre{font:13px/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace;margin:6px 0 0;overflow-x:auto}
.sub,.note,figcaption p,footer{color:var(--muted);font-size:14px}
.lead{font-size:19px;line-height:1.45;margin:20px 0;max-width:64ch}
.key{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:14px;margin:0 0 22px;padding:0;list-style:none}
.key li{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px}
.key b{display:block;font-size:27px;line-height:1.2;font-weight:650;letter-spacing:-.01em;font-variant-numeric:tabular-nums}
.key span{color:var(--muted);font-size:14px;line-height:1.35;display:block;margin-top:3px}
ul.findings{margin:0 0 18px;padding-left:1.15em;max-width:82ch}
ul.findings li{margin:0 0 7px;overflow-wrap:anywhere}
.caution{border-left:4px solid var(--line);background:var(--card);border-radius:0 8px 8px 0;padding:10px 14px;margin:0 0 10px;max-width:82ch;overflow-wrap:anywhere}
.caution.loud{border-left-color:var(--warn)}
.caution b{font-weight:600}
.caution p{margin:2px 0 0;color:var(--muted);font-size:15px}
.grid{display:grid;grid-template-columns:minmax(0,1fr);gap:20px;align-items:start;margin:0 0 20px}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:10px;padding:18px 20px 14px;min-width:0}
figure svg{display:block;width:100%;height:auto;max-width:580px;margin:0 auto}
figure svg text{font-family:inherit}
figcaption{margin-top:8px}
figcaption p{margin:0 0 4px}
.missing{background:var(--card);border:1px dashed var(--line);border-radius:10px;padding:14px 18px;color:var(--muted)}
.missing p{margin:0}
.missing h3{color:var(--ink);margin-bottom:4px}
.table{background:var(--card);border:1px solid var(--line);border-radius:10px;margin:0 0 20px;max-width:100%;min-width:0}
.table h3{padding:13px 16px 0;margin:0 0 4px;font-size:15px}
.table .note{padding:9px 16px 11px;margin:0;max-width:none;border-top:1px solid var(--line)}
.scroll{overflow-x:auto;border-radius:0 0 10px 10px}
.scroll:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
table{border-collapse:collapse;width:100%;font-size:14.5px;font-variant-numeric:tabular-nums}
th,td{padding:7px 12px;border-top:1px solid var(--line);text-align:left;vertical-align:baseline;white-space:nowrap}
thead th{border-top:0;color:var(--muted);font-weight:500;vertical-align:bottom}
tbody th{font-weight:500;position:sticky;left:0;background:var(--card);white-space:normal;min-width:9em;max-width:26em;overflow-wrap:break-word}
th:first-child,td:first-child{padding-left:16px}
th:last-child,td:last-child{padding-right:16px}
td:not(.n){white-space:normal;max-width:22em;overflow-wrap:break-word}
.n{text-align:right}
.bar{background:linear-gradient(to right,var(--bar) var(--v),var(--track) var(--v)) no-repeat right 10px bottom 0/calc(100% - 20px) 4px}
details{margin:0 0 12px}
summary{cursor:pointer;color:var(--accent);padding:4px 0}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:6px 18px;margin:0 0 20px;background:var(--card);
border:1px solid var(--line);border-radius:10px;padding:16px 18px;font-size:15px}
dt{color:var(--muted)}
dd{margin:0;overflow-wrap:anywhere}
footer{margin-top:40px;border-top:1px solid var(--line);padding-top:14px}
.column{display:grid;grid-template-columns:minmax(0,1fr);gap:20px}.column>*,.grid>*{margin:0}.column .table th,.column .table td{padding-left:7px;padding-right:7px}
.column .table tbody th{min-width:0}.column .table th:first-child{padding-left:16px}.column .table .n:last-child{padding-right:16px}
@media screen and (min-width:1000px){section>.table tbody th{min-width:15em}}
@media screen and (min-width:1080px){.grid.two{grid-template-columns:minmax(0,1fr) minmax(0,1fr)}}
@media screen and (max-width:640px){
main{padding:22px 12px 36px}h1{font-size:25px}h2{margin-top:34px}.lead{font-size:17.5px}
.key{grid-template-columns:1fr 1fr;gap:10px}.key li{padding:11px 12px}.key b{font-size:22px}
figure{padding:12px 4px 10px;border-radius:8px}figure h3,figcaption{padding:0 8px}
dl{grid-template-columns:minmax(0,1fr);gap:0}dd{margin:0 0 10px}
tbody th{min-width:8em;max-width:42vw}}
)";

/// Paper: no scrolling, so tables get small print; nothing breaks across pages that need not.
constexpr const char* kPrint = R"(
@page{margin:14mm}
@media print{body{background:#fff;font-size:10.5pt}main{max-width:none;padding:0}
figure,.key li,.caution,tr,dl{break-inside:avoid}h2,h3,thead{break-after:avoid}h2{margin-top:26px}
.key{grid-template-columns:repeat(5,1fr);gap:8px}.key b{font-size:18px}.key li{padding:8px 10px}.key span{font-size:11px}
.scroll{overflow:visible}th,td{max-width:none}tbody th,td:not(.n){overflow-wrap:anywhere}.table{border:0}table{font-size:7.5pt}th,td{padding:3px 3px!important;white-space:normal}td.n{white-space:nowrap}
details::details-content{content-visibility:visible;block-size:auto}
.many table{font-size:5.5pt}.many th,.many td{padding:2px 1px!important;overflow-wrap:anywhere}.many td.n{white-space:normal;overflow-wrap:normal}
tbody th{position:static;min-width:0}.table h3{padding-left:4px}
.bar{-webkit-print-color-adjust:exact;print-color-adjust:exact}figure svg{-webkit-print-color-adjust:exact;print-color-adjust:exact;max-width:640px}}
)";

}  // namespace

std::string page_style() {
  return std::string(kColours) + kLayout + kPrint + dark_mode_css() + "\n";
}

}  // namespace lockstep::plots
