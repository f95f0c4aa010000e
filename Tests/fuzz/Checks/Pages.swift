import Broker
import BrokerAPI
import Glibc
import Grants
import NIOCore
import NIOEmbedded
import NIOHTTP1
import OAuth

@testable import Callback
@testable import HTTPServer

extension Target {
  /// Requests of a browser, or of another program, to the redirection endpoint; and the pages with its texts in them.
  static let http = Target(name: "http", longest: 4096) { bytes in
    let classifier = RequestClassifier(
      port: port, paths: Paths(["/callback"], publicSite: .init(origin: publicOrigin, paths: ["/web"])),
      requestLineLimit: limits.requestLine, formLimit: limits.form, fragmentLimit: limits.fragment)
    let gathered = try gathered(bytes, classifier)
    if let head = gathered.head {
      switch classifier.ruling(on: head) {
      case .callback(let url): try checkCallback(url, head, method: .GET)
      case .fragment(let url):
        try checkCallback(url, head, method: .POST)
        try checkFragment(url, head, gathered.fragment)
      case .link(let token): try checkLink(token, head)
      case .page(let page): try check(HTTPReply(page))
      case .logout(let provider): try checkLogout(provider, head)
      case .refusal(let refusal): try check(HTTPReply(refusal))
      case .nothing: try expect(head.uri.hasPrefix("/favicon.ico"), "nothing is said to \(head.uri)")
      }
    }
    try checkPages(decoded(bytes))
  }

  private static let port = 4711
  private static let publicOrigin = "https://broker.example.com"

  private static let limits = {
    var limits = CallbackListener.Limits()
    (limits.requestLine, limits.headers, limits.headerCount, limits.dropped) = (512, 1024, 20, 1024)
    limits.fragment = 512
    return limits
  }()

  private static let serverLimits = HTTPServer.Limits(limits)

  /// Replaces the endpoint, and collects the requests that the server reads.
  private final class Gathering: HTTPConversation {
    let classifier: RequestClassifier
    var head: HTTPRequestHead?
    /// The values of the page.
    var fragment: ByteBuffer?
    var refusals = 0

    init(_ classifier: RequestClassifier) { self.classifier = classifier }

    func intake(of head: HTTPRequestHead) -> BodyHandling {
      self.head = head
      guard case .fragment = classifier.ruling(on: head) else { return .withoutBody }
      return .whole(atMost: classifier.fragmentLimit)
    }

    func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ exchange: HTTPExchange) {
      fragment = body
      exchange.reply(HTTPReply(.noContent))
    }

    func words(for refusal: HTTPRefusal, line: [UInt8]) -> HTTPReply {
      refusals += 1
      return HTTPReply(.badRequest)
    }
  }

  /// Read in pieces of a size that their number chooses.
  private static func gathered(_ bytes: [UInt8], _ classifier: RequestClassifier) throws -> Gathering {
    let gathering = Gathering(classifier)
    let channel = EmbeddedChannel()
    let served = ServedConnections(serverLimits, .none, loop: channel.embeddedEventLoop)
    try channel.pipeline.syncOperations.addHandler(
      IncomingBytes(serverLimits))
    HTTPConnection(channel, .nobody, NIOLoopBound(served, eventLoop: channel.embeddedEventLoop)).begin(gathering)
    let size = bytes.count.isMultiple(of: 2) ? bytes.count + 1 : 7
    var rest = bytes[...]
    while !rest.isEmpty {
      _ = try? channel.writeInbound(ByteBuffer(bytes: rest.prefix(size)))
      rest = rest.dropFirst(size)
    }
    _ = try? channel.finish(acceptAlreadyClosed: true)
    try expect(gathering.refusals <= 1, "a request is refused \(gathering.refusals) times")
    return gathering
  }

  private static func checkFragment(_ url: String, _ head: HTTPRequestHead, _ fragment: ByteBuffer?) throws {
    let origin = head.headers["Origin"].first?.lowercased() ?? ""
    try expect(url.lowercased().hasPrefix("\(origin)/"), "a fragment for \(url) from \(origin)")
    let sites = head.headers["Sec-Fetch-Site"].map { $0.lowercased() }
    try expect(sites.allSatisfy { $0 == "same-origin" }, "a fragment from \(sites)")
    // It may be refused, or cut off.
    guard let fragment else { return }
    try expect(fragment.readableBytes <= limits.fragment, "a fragment of \(fragment.readableBytes) bytes")
    guard let address = CallbackConversation.address(url, fragment: fragment) else { return }
    try expect(address.utf8.allSatisfy { (0x21...0x7e).contains($0) }, "an address with \(address.debugDescription)")
    try expect(address == url || address.hasPrefix("\(url)#"), "another address than \(url)")
    _ = ReturnedAddress(address)
  }

  private static func checkCallback(_ url: String, _ head: HTTPRequestHead, method: HTTPMethod) throws {
    try expect(head.method == method, "\(head.method) brings a callback")
    let origins = ["127.0.0.1", "[::1]", "localhost"].map { "http://\($0):\(port)/callback" } + ["\(publicOrigin)/web"]
    let path = url.prefix { $0 != "?" }.lowercased()
    try expect(origins.contains(path), "a callback at \(path)")
    try expect(
      !url.unicodeScalars.contains { $0.value <= 0x20 || $0.value == 0x7F }, "a callback with control characters")
    _ = try? AuthorizationResponse.parse(url)
  }

  private static func checkLink(_ token: String, _ head: HTTPRequestHead) throws {
    let path = head.uri.prefix { $0 != "?" }
    try expect(head.method == .GET && path == "\(LinkPath.prefix)\(token)", "\(head.method) \(head.uri) opens it")
    let alphabet = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    try expect(token.utf8.allSatisfy(alphabet.contains), "a link with \(token.debugDescription)")
  }

  private static func checkLogout(_ provider: String, _ head: HTTPRequestHead) throws {
    try expect(head.method == .POST && head.uri.hasPrefix(LogoutPath.prefix), "\(head.method) \(head.uri) signs out")
    try expect(ProviderName(rawValue: provider) != nil, "a provider named \(provider.debugDescription)")
  }

  /// Outcomes that show a text, and the marks of their pages with a harmless one.
  private static let outcomes: [(outcome: @Sendable (String) -> CallbackOutcome, harmless: [Int])] = {
    guard let login = LoginID(rawValue: "login-1") else { preconditionFailure("this is a name") }
    let outcomes: [@Sendable (String) -> CallbackOutcome] = [
      {
        .completed(login, .init(account: $0, provider: $0, identity: SignedIn(bestName: $0, name: $0), program: $0))
      },
      { .signedOut(provider: $0) }, { .failed(RPCError(.loginDenied, $0, hint: $0)) },
      { .refused(RPCError(.invalidCallback, $0, hint: $0)) },
      { .failed(RPCError(.storeFailure, $0, hint: $0)) },
    ]
    return outcomes.map { ($0, marks(HTTPReply(Page($0("harmless"))))) }
  }()

  /// No text brings markup into the page.
  private static func checkPages(_ text: String) throws {
    guard !text.isEmpty else { return }
    for (outcome, harmless) in outcomes {
      let response = HTTPReply(Page(outcome(text)))
      try check(response)
      let found = marks(response)
      try expect(found == harmless, "a page with \(found) marks, not \(harmless)")
    }
    let refusal = HTTPReply(LogoutOutcome.refused(text))
    try check(refusal)
    guard case .object(let members) = try? JSON.parse(String(buffer: refusal.body).utf8) else {
      throw Broken(description: "a refusal that is no JSON")
    }
    try expect(members.map(\.name) == ["error", "error_description"], "a refusal without its members")
    let response = HTTPReply(Page(.redirect(url: text)))
    try check(response)
    let location = response.headers.first(name: "Location")
    try expect(response.status == .seeOther || location == nil, "a page with a location")
  }

  /// `<`, `>` and quotes of a page; those around code, which hints may have, do not count.
  private static func marks(_ response: HTTPReply) -> [Int] {
    let html = response.body
    let code = count("<code>", in: html) + count("</code>", in: html)
    return ["<", ">", "\"", "'"].map { mark in
      count(mark, in: html) - (mark == "<" || mark == ">" ? code : 0)
    }
  }

  /// How often a page has a text. By memchr(3): a debug build would take most of its time for the bytes of pages.
  private static func count(_ text: String, in html: ByteBuffer) -> Int {
    let wanted = Array(text.utf8)
    return html.withUnsafeReadableBytes { bytes in
      guard let base = bytes.baseAddress, let first = wanted.first else { return 0 }
      let end = base + bytes.count
      var place = base
      var count = 0
      while end - place >= wanted.count, let found = memchr(place, Int32(first), end - place) {
        let start = UnsafeRawPointer(found)
        if end - start >= wanted.count, memcmp(start, wanted, wanted.count) == 0 { count += 1 }
        place = start + 1
      }
      return count
    }
  }

  private static func check(_ response: HTTPReply) throws {
    for (name, value) in response.headers {
      try expect(!value.utf8.contains { $0 < 0x20 || $0 >= 0x7F }, "a control character in \(name)")
    }
    let body = String(buffer: response.body)
    let steering = body.unicodeScalars.contains { steers($0) && $0 != "\n" && $0 != "\u{fffd}" }
    try expect(!steering, "a page with a character that hides or turns")
    try expect(body.utf8.count <= 32 << 10, "a page of \(body.utf8.count) bytes")
  }
}
