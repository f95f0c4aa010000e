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
    let desk = Desk(
      port: port, paths: Paths(["/callback"]), requestLineLimit: limits.requestLine, formLimit: limits.form)
    if let head = head(bytes) {
      switch desk.ruling(on: head) {
      case .callback(let url): try checkCallback(url, head)
      case .page(let page): try check(Response(page, withBody: head.method != .HEAD))
      case .logout(let provider): try checkLogout(provider, head)
      case .refusal(let refusal): try check(Response(refusal, withBody: head.method != .HEAD))
      case .nothing: try expect(head.uri.hasPrefix("/favicon.ico"), "nothing is said to \(head.uri)")
      }
    }
    try checkPages(decoded(bytes))
  }

  private static let port = 4711

  private static let limits = {
    var limits = CallbackListener.Limits()
    (limits.requestLine, limits.headers, limits.headerCount, limits.body) = (512, 1024, 20, 1024)
    return limits
  }()

  /// Gathers what the decoder makes of the bytes, and takes the place of the connection.
  private final class Gathering: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart

    let intake: Intake
    var head: HTTPRequestHead?

    init(_ intake: Intake) { self.intake = intake }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      // A connection is for one request.
      guard case .head(let head) = unwrapInboundIn(data), self.head == nil else { return }
      intake.discard()
      self.head = head
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
  }

  /// Read in pieces of a size that their number chooses.
  private static func head(_ bytes: [UInt8]) -> HTTPRequestHead? {
    let intake = Intake(limits)
    let gathering = Gathering(intake)
    var decoderLimits = NIOHTTPDecoderLimitConfiguration()
    (decoderLimits.maxHeaderFieldSize, decoderLimits.maxHeaderListSize) = (limits.headers, limits.headers)
    decoderLimits.maxHeaderFieldCount = limits.headerCount
    let decoder = HTTPRequestDecoder(
      leftOverBytesStrategy: .dropBytes, informationalResponseStrategy: .drop, limitConfiguration: decoderLimits)
    let channel = EmbeddedChannel(handlers: [intake, ByteToMessageHandler(decoder), gathering])
    let size = bytes.count.isMultiple(of: 2) ? bytes.count + 1 : 7
    var rest = bytes[...]
    while !rest.isEmpty {
      _ = try? channel.writeInbound(ByteBuffer(bytes: rest.prefix(size)))
      rest = rest.dropFirst(size)
    }
    _ = try? channel.finish(acceptAlreadyClosed: true)
    return gathering.head
  }

  private static func checkCallback(_ url: String, _ head: HTTPRequestHead) throws {
    try expect(head.method == .GET, "\(head.method) brings a callback")
    let origins = ["127.0.0.1", "[::1]", "localhost"].map { "http://\($0):\(port)/callback" }
    let path = url.prefix { $0 != "?" }.lowercased()
    try expect(origins.contains(path), "a callback at \(path)")
    try expect(
      !url.unicodeScalars.contains { $0.value <= 0x20 || $0.value == 0x7F }, "a callback with control characters")
    _ = try? AuthorizationResponse.parse(url)
  }

  private static func checkLogout(_ provider: String, _ head: HTTPRequestHead) throws {
    try expect(head.method == .POST && head.uri.hasPrefix(LogoutPath.prefix), "\(head.method) \(head.uri) signs out")
    try expect(ProviderName(rawValue: provider) != nil, "a provider named \(provider.debugDescription)")
  }

  /// Outcomes that show a text, and the marks of their pages with a harmless one.
  private static let outcomes: [(outcome: @Sendable (String) -> CallbackOutcome, harmless: [Int])] = {
    let outcomes: [@Sendable (String) -> CallbackOutcome] = [
      { .completed(account: $0, provider: $0) }, { .signedOut(provider: $0) }, { .denied(message: $0) },
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
