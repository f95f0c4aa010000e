import NIOHTTP1
import Pages

/// The page that sends the fragment of its own URL to the endpoint, since browsers send it to no server (RFC 6749
/// §4.2.2, RFC 9110 §7.1).
///
/// Its script first removes the fragment from the address bar, so that neither a screenshot nor the history has it, and
/// posts it once. The token is in no URL that a server or a log records, and in no text of the page.
enum FragmentPage {
  /// SHA-256 of `script` for `script-src`. A test compares them and prints the right one.
  static let scriptHash = "sha256-+AwuET5dD1DHm0zGXqAKTFC+LNhTJNciwNkRsJSjz5U="

  /// The answer is another page of ours. It is parsed, which runs nothing in it, and put in this one's place.
  static var script: String { code.markup }

  private static let code: HTML = """
    "use strict";
    (function () {
      var fragment = location.hash.slice(1);
      var address = location.href.split("#")[0];
      history.replaceState(null, "", address);
      function show(id) {
        document.getElementById("busy").hidden = id !== "busy";
        document.getElementById("lost").hidden = id !== "lost";
      }
      function read(response) {
        var type = response.headers.get("Content-Type") || "";
        if (type.indexOf("text/html") !== 0) throw new Error("no page");
        return response.text();
      }
      function put(text) {
        var page = new DOMParser().parseFromString(text, "text/html");
        document.replaceChild(document.adoptNode(page.documentElement), document.documentElement);
      }
      addEventListener("DOMContentLoaded", function () {
        show("busy");
        fetch(address, {
          method: "POST", body: fragment, headers: {"Content-Type": "application/x-www-form-urlencoded"},
          credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer"
        }).then(read).then(put).catch(function () { show("lost"); });
      });
    })();
    """

  static let html = Document.html(
    title: busy.heading, tone: busy.tone, style: .inline, head: "<script>\(code)</script>\n", bodyClass: "notice",
    body: Notice.card(
      busy.tone,
      """
      <div id="busy" hidden>
      \(busy.notice.content)</div>
      <div id="lost" class="\(lost.tone.name)" hidden>
      \(lost.notice.content)</div>
      <noscript>
      <div class="\(withoutScript.tone.name)">
      \(withoutScript.notice.content)</div>
      </noscript>

      """))

  private static let busy = Page(
    status: .ok, tone: .neutral, heading: "Completing the sign-in", lead: "This takes a moment.")

  private static let lost = Page(
    status: .ok, tone: .bad, heading: "No answer", lead: "The provider's answer may not have arrived.",
    hint: "The program that started the sign-in shows the result. If it failed, start the sign-in again.")

  private static let withoutScript = Page(
    status: .ok, tone: .bad, heading: "One more thing to do",
    lead:
      "The provider answered in a part of the URL that only a script can read, and scripts do not run in this window.",
    hint: "If you started with `grantctl login --manual`, paste the complete URL of this page there. "
      + "Otherwise allow scripts for this page and reload it.")
}
