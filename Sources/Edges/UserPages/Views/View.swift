import BrokerAPI
import Pages

/// A view in the frame of all views.
struct View {
  enum Section: CaseIterable {
    case home, approvals, access, activity, health

    var path: HTML {
      switch self {
      case .home: "/"
      case .approvals: "/approvals"
      case .access: "/access"
      case .activity: "/activity"
      case .health: "/health"
      }
    }

    var name: HTML {
      switch self {
      case .home: "Accounts"
      case .approvals: "Approvals"
      case .access: "Access"
      case .activity: "Activity"
      case .health: "Health"
      }
    }
  }

  var title: String
  var section: Section?
  /// Below the heading.
  var lead: HTML = ""
  /// Beside the heading.
  var controls: HTML = ""
  var main: HTML
  /// Told to a screen reader when an event changes it.
  var said = ""
  /// Events do not load it again: it is the result of a form.
  var isStill = false
  /// A browser without scripts loads it again after this number of seconds; 0: it does not.
  var reload = 0

  static let notFound = View(
    title: "Nothing here", main: "<p>This page has no view of this name. <a href=\"/\">Go to your accounts</a>.</p>")

  static func failed(_ title: String, _ error: RPCError, section: Section? = nil) -> View {
    View(title: title, section: section, main: Parts.problem(error), isStill: true)
  }

  func document(formToken: String) -> String {
    let links = Section.allCases.map { link -> HTML in
      let current: HTML = link == section ? " aria-current=\"page\"" : ""
      return "<a href=\"\(link.path)\"\(current)>\(link.name)</a>"
    }
    let still: HTML = isStill ? " data-still=\"\"" : ""
    let again: HTML = reload > 0 ? "<noscript><meta http-equiv=\"refresh\" content=\"\(reload)\"></noscript>\n" : ""
    return Document.html(
      title: title, tone: .neutral, style: .linked(path: "/style.css"),
      head: "\(again)<script src=\"/script.js\" defer></script>\n", bodyClass: "app",
      body: """
        <a class="skip" href="#main">Skip to the content</a>
        <header class="top"><div class="wide"><a class="brand" href="/">grantd</a>
        <nav aria-label="Views">\(links)</nav>
        <form class="end" method="post" action="/end"><input type="hidden" name="form_token" value="\(formToken)">\
        <button class="quiet">Close</button></form></div></header>
        <div id="lost" class="lost bad" role="alert" hidden><div class="wide">The broker does not answer. \
        Nothing was changed. If this does not go away, run <code>grantctl ui</code> again.</div></div>
        <p id="said" class="hidden" role="status" aria-live="polite"></p>
        <main id="main" class="wide" tabindex="-1" data-said="\(said)"><div\(still)>
        <div class="head"><div><h1>\(title, limit: 128)</h1>\(lead)</div><div class="controls">\(controls)</div></div>
        \(main)</div></main>

        """)
  }
}

/// Parts of several views.
enum Parts {
  static func problem(_ error: RPCError) -> HTML {
    message("bad", error.message, error.nextStep)
  }

  static func message(_ tone: HTML, _ what: String, _ step: String?, _ more: HTML = "") -> HTML {
    let next: HTML = step.map { "<p class=\"step\">\(words: $0)</p>" } ?? ""
    return "<div class=\"message \(tone)\"><p><bdi>\(words: sentence(what))</bdi></p>\(next)\(more)</div>\n"
  }

  /// Messages of the broker begin in lower case.
  static func sentence(_ text: String) -> String { text.prefix(1).uppercased() + text.dropFirst() }

  static func badge(_ tone: HTML, _ words: HTML) -> HTML { "<span class=\"badge \(tone)\">\(words)</span>" }

  static func empty(_ heading: HTML, _ text: HTML, _ controls: HTML = "") -> HTML {
    "<div class=\"empty\"><h2>\(heading)</h2><p>\(text)</p><div class=\"controls\">\(controls)</div></div>\n"
  }

  /// A bar of the part that is left.
  static func bar(_ part: Double, _ tone: HTML, label: String) -> HTML {
    let width = Int((min(max(part, 0), 1) * 100).rounded())
    return """
      <svg class="bar \(tone)" viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label="\(label)">\
      <rect class="rest" width="100" height="4"/><rect class="part" width="\(width)" height="4"/></svg>
      """
  }
}
