import Broker
import BrokerAPI
import HTTPServer
import Loopback
import NIOHTTP1
import OAuth
import Pages
import Principals

/// One request of a session: its parameters, and the methods of the socket that answer it.
struct Ask: Sendable {
  let pages: UserPages
  let visit: Visits.Visit
  let query: Fields
  let form: Fields
  /// Unix seconds.
  let now: Int64
  private let principal: Principal
  private let exchange: HTTPExchange
  /// Its calls continue after the answer.
  private var outlives = false

  init(
    _ pages: UserPages, _ visit: Visits.Visit, _ principal: Principal, _ exchange: HTTPExchange, query: Fields,
    form: Fields
  ) {
    self.pages = pages
    self.visit = visit
    self.principal = principal
    self.exchange = exchange
    self.query = query
    self.form = form
    now = pages.system.now().seconds
  }

  var user: UInt32 { visit.user }
  /// Commands that run as this user; nil: the broker runs as another one.
  var commands: (any OwnCommands)? { pages.commands.flatMap { $0.user == user && visit.sharesFiles ? $0 : nil } }
  var outliving: Ask {
    var copy = self
    copy.outlives = true
    return copy
  }

  var path: String { String(exchange.head.path) }
  var isPost: Bool { exchange.head.method == .POST }

  /// Calls a method in the name of the user, by the same rules and with the same records as on the socket.
  func call<M: RPCMethod>(_ method: M.Type, _ params: M.Params) async -> Result<M.Result, RPCError> {
    await HTTPSession(principal, outlives ? nil : exchange).perform(method, params, by: pages.broker)
  }

  func reply() async -> HTTPReply {
    switch (path, isPost) {
    case ("/", false): await home()
    case ("/login", true): await startLogin()
    case ("/login", false): await login()
    case ("/login/other", true): await loginOnOtherDevice()
    case ("/login/cancel", true): await cancelLogin()
    case ("/logout", false): await confirmLogout()
    case ("/logout", true): await logout()
    case ("/add", false): await add()
    case ("/add", true): await addProvider()
    case ("/use", false): await use()
    case ("/use", true): await changeFiles()
    case ("/approvals", false): await approvals()
    case ("/approvals", true): await answerRelease()
    case ("/access", false): await access()
    case ("/activity", false): await activity()
    case ("/activity.json", false): await exportActivity()
    case ("/health", false): await health()
    case ("/health", true): await checkProvider()
    case ("/end", true): end()
    default: page(.notFound, status: .notFound)
    }
  }

  private func end() -> HTTPReply {
    pages.end(visit)
    return HTTPReply(.endedByUser)
  }

  /// A view in the frame of all views.
  func page(_ view: View, status: HTTPResponseStatus = .ok) -> HTTPReply {
    .page(view.document(formToken: visit.formToken), status: status)
  }

  /// A form with one button, which posts.
  func form(_ action: HTML, _ fields: [(name: HTML, value: String)] = [], _ controls: HTML) -> HTML {
    let hidden = fields.map { field -> HTML in
      "<input type=\"hidden\" name=\"\(field.name)\" value=\"\(field.value)\">"
    }
    return """
      <form method="post" action="\(action)">\
      <input type="hidden" name="form_token" value="\(visit.formToken)">\(hidden)\(controls)</form>

      """
  }
}

extension RPCError {
  /// What to do, for users.
  var nextStep: String? { hint ?? reason?.defaultHint }
}
