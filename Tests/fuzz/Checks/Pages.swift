import Broker
import BrokerAPI
import Grants
import NIOCore
import NIOEmbedded
import NIOHTTP1
import OAuth

@testable import Callback

extension Target {
  /// What a browser, or somebody who poses as one, sends to the redirection endpoint; and the pages with its texts in them.
  static let http = Target(name: "http", longest: 4096) { bytes in
    let classifier = RequestClassifier(
      port: port, paths: Paths(["/callback"], publicSite: .init(origin: publicOrigin, paths: ["/web"])),
      requestLineLimit: limits.requestLine, formLimit: limits.form, fragmentLimit: limits.fragment)
    let gathered = gathered(bytes, classifier)
    if let head = gathered.head {
      switch classifier.ruling(on: head) {
      case .callback(let url): try checkCallback(url, head, method: .GET)
      case .fragment(let url):
        try checkCallback(url, head, method: .POST)
        try checkFragment(url, head, gathered.form)
      case .link(let token): try checkLink(token, head)
      case .page(let page): try check(Response(page, withBody: head.method != .HEAD))
      case .logout(let provider): try checkLogout(provider, head)
      case .refusal(let refusal): try check(Response(refusal, withBody: head.method != .HEAD))
      case .nothing: try expect(head.uri.hasPrefix("/favicon.ico"), "nothing is said to \(head.uri)")
      }
    }
    try checkPages(decoded(bytes))
  }

  private static let port = 4711
  private static let publicOrigin = "https://broker.example.com"

  private static let limits = {
    var limits = CallbackListener.Limits()
    (limits.requestLine, limits.headers, limits.headerCount, limits.body) = (512, 1024, 20, 1024)
    limits.fragment = 512
    return limits
  }()

  /// Gathers what the decoder makes of the bytes, and takes the place of the connection.
  private final class Gathering: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart

    let bodyLimit: BodyLimit
    let classifier: RequestClassifier
    var head: HTTPRequestHead?
    /// What the page brings, as far as it came and was taken.
    var form: IncomingForm?

    init(_ bodyLimit: BodyLimit, _ classifier: RequestClassifier) {
      (self.bodyLimit, self.classifier) = (bodyLimit, classifier)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      switch unwrapInboundIn(data) {
      // A connection is for one request.
      case .head(let head) where self.head == nil:
        self.head = head
        guard case .fragment(let url) = classifier.ruling(on: head) else { return bodyLimit.discard() }
        bodyLimit.admitForm(limit: classifier.fragmentLimit)
        form = IncomingForm(.fragment(url: url), limit: classifier.fragmentLimit)
      case .body(let bytes): if form?.append(bytes) == false { bodyLimit.discard() }
      case .head, .end: break
      }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
  }

  /// Read in pieces of a size that their number chooses.
  private static func gathered(_ bytes: [UInt8], _ classifier: RequestClassifier) -> Gathering {
    let bodyLimit = BodyLimit(limits)
    let gathering = Gathering(bodyLimit, classifier)
    var decoderLimits = NIOHTTPDecoderLimitConfiguration()
    (decoderLimits.maxHeaderFieldSize, decoderLimits.maxHeaderListSize) = (limits.headers, limits.headers)
    decoderLimits.maxHeaderFieldCount = limits.headerCount
    let decoder = HTTPRequestDecoder(
      leftOverBytesStrategy: .dropBytes, informationalResponseStrategy: .drop, limitConfiguration: decoderLimits)
    let channel = EmbeddedChannel(handlers: [bodyLimit, ByteToMessageHandler(decoder), gathering])
    let size = bytes.count.isMultiple(of: 2) ? bytes.count + 1 : 7
    var rest = bytes[...]
    while !rest.isEmpty {
      _ = try? channel.writeInbound(ByteBuffer(bytes: rest.prefix(size)))
      rest = rest.dropFirst(size)
    }
    _ = try? channel.finish(acceptAlreadyClosed: true)
    return gathering
  }

  private static func checkFragment(_ url: String, _ head: HTTPRequestHead, _ form: IncomingForm?) throws {
    let origin = head.headers["Origin"].first?.lowercased() ?? ""
    try expect(url.lowercased().hasPrefix("\(origin)/"), "a fragment for \(url) from \(origin)")
    let sites = head.headers["Sec-Fetch-Site"].map { $0.lowercased() }
    try expect(sites.allSatisfy { $0 == "same-origin" }, "a fragment from \(sites)")
    guard let form else { throw Broken(description: "a fragment that nobody takes") }
    try expect(form.bytes.count <= limits.fragment, "a fragment of \(form.bytes.count) bytes")
    guard let address = form.address(url) else { return }
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
    let outcomes: [@Sendable (String) -> CallbackOutcome] = [
      { .completed(account: $0, provider: $0, identity: SignedIn(bestName: $0, name: $0)) },
      { .signedOut(provider: $0) }, { .denied(message: $0) },
      { .refused(message: $0, hint: $0) },
      { .failed(message: $0, hint: $0) },
    ]
    return outcomes.map { ($0, marks(Response(Page($0("harmless"))))) }
  }()

  /// Whatever the text is, it brings no mark into the page.
  private static func checkPages(_ text: String) throws {
    guard !text.isEmpty else { return }
    for (outcome, harmless) in outcomes {
      let response = Response(Page(outcome(text)))
      try check(response)
      let found = marks(response)
      try expect(found == harmless, "a page with \(found) marks, not \(harmless)")
    }
    let refusal = Response(.refused(text))
    try check(refusal)
    guard case .object(let members) = try? BrokerAPI.JSON.parse((refusal.body ?? "").utf8) else {
      throw Broken(description: "a refusal that is no JSON")
    }
    try expect(members.map(\.name) == ["error", "error_description"], "a refusal without its members")
    let response = Response(Page(.redirect(url: text)))
    try check(response)
    let location = response.head.headers.first(name: "Location")
    try expect(response.head.status == .seeOther || location == nil, "a page with a place to go on at")
  }

  /// `<`, `>` and quotes of a page; those around code, which hints may have, do not count.
  private static func marks(_ response: Response) -> [Int] {
    let html = Array((response.body ?? "").utf8)
    let code = html.indices.count { html[$0...].starts(with: "<code>".utf8) }
    let ends = html.indices.count { html[$0...].starts(with: "</code>".utf8) }
    return "<>\"'".utf8.map { mark in
      html.count { $0 == mark } - (mark == UInt8(ascii: "<") || mark == UInt8(ascii: ">") ? code + ends : 0)
    }
  }

  private static func check(_ response: Response) throws {
    for (name, value) in response.head.headers {
      try expect(!value.utf8.contains { $0 < 0x20 || $0 >= 0x7F }, "a control character in \(name)")
    }
    guard let body = response.body else { return }
    let steering = body.unicodeScalars.contains { $0 != "\n" && steers($0) && $0 != "\u{fffd}" }
    try expect(!steering, "a page with a character that hides or turns")
    try expect(body.utf8.count <= 32 << 10, "a page of \(body.utf8.count) bytes")
  }
}
