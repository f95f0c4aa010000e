import Broker
import HTTPServer
import Logging
import NIOCore
import NIOHTTP1

/// The redirection endpoint as an application of the HTTP server.
struct CallbackApplication: HTTPApplication {
  let places: NIOLoopBound<BrowserConnectionLimits>

  /// It has its own names, and it is for browsers (``RequestClassifier``).
  var checks: HTTPHeadChecks { .none }

  func places(_ limits: HTTPServer.Limits, on loop: any EventLoop, _ logger: Logger) -> any ConnectionLimits {
    places.value
  }
}

/// One connection: one request, one answer.
final class CallbackConversation: HTTPConversation {
  private let context: CallbackWork.Context
  private let work: CallbackWork
  private let peer: BrowserPeer
  private var ruling = RequestClassifier.RequestClassification.nothing

  private var configuration: CallbackListener.Configuration { context.configuration }

  init(_ context: CallbackWork.Context, _ work: CallbackWork, _ peer: BrowserPeer) {
    self.context = context
    self.work = work
    self.peer = peer
  }

  func intake(of head: HTTPRequestHead) -> BodyHandling {
    let limits = configuration.limits
    ruling = RequestClassifier(
      port: peer.port, paths: context.paths, requestLineLimit: limits.requestLine, formLimit: limits.form,
      fragmentLimit: limits.fragment
    ).ruling(on: head)
    return switch ruling {
    case .callback, .link: .withoutBody
    case .fragment: .whole(atMost: limits.fragment)
    case .logout: .whole(atMost: limits.form)
    case .page(let page): .refuse(HTTPReply(page))
    case .refusal(let refusal): .refuse(HTTPReply(refusal))
    case .nothing: .refuse(.noContent)
    }
  }

  func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ exchange: HTTPExchange) {
    switch ruling {
    case .callback(let url): complete(url, isWhole: false, exchange)
    case .link(let token): open(link: token, exchange)
    case .fragment(let url):
      guard let address = Self.address(url, fragment: body) else { return exchange.reply(HTTPReply(Page.badRequest)) }
      complete(address, isWhole: true, exchange)
    case .logout(let provider): logOut(provider, body, exchange)
    // Answered by its head.
    case .page, .refusal, .nothing: break
    }
  }

  /// In those of the path that the request was meant for.
  func words(for refusal: HTTPRefusal, line: [UInt8]) -> HTTPReply {
    let page: Page =
      switch refusal {
      case .noHTTP: .badRequest
      case .longLine: .requestLineTooLong
      case .largeHead: .headersTooLarge
      case .largeBody: .fragmentTooLong
      case .lateHead, .lateBody: .requestTimeout
      }
    let words = line.split(separator: UInt8(ascii: " "), maxSplits: 1)
    guard words.count == 2, words[1].starts(with: LogoutPath.prefix.utf8) else { return HTTPReply(page) }
    if case .largeBody = refusal { return HTTPReply(Refusal.tooLarge) }
    return HTTPReply(Refusal(page))
  }

  /// The address with the fragment, as the browser had it. Nil: no browser writes one like this (URL Standard, fragment
  /// percent-encode set).
  static func address(_ url: String, fragment: ByteBuffer) -> String? {
    let bytes = fragment.readableBytesView
    guard bytes.allSatisfy({ (0x21...0x7e).contains($0) && !"<>\"`".utf8.contains($0) }) else { return nil }
    return bytes.isEmpty ? url : "\(url)#\(String(decoding: bytes, as: UTF8.self))"
  }

  // MARK: What is done

  private func complete(_ url: String, isWhole: Bool, _ exchange: HTTPExchange) {
    guard let completion = work.complete(url, isWhole: isWhole, from: peer) else {
      return exchange.reply(HTTPReply(Page.busy))
    }
    answer(exchange, with: completion, within: configuration.handlerDeadline, else: HTTPReply(Page.tooSlow)) {
      switch $0 {
      case .fragmentWanted: .fragmentPage
      case .outcome(let outcome): HTTPReply(isWhole ? Page(outcome).inPlace : Page(outcome))
      }
    }
  }

  private func open(link token: String, _ exchange: HTTPExchange) {
    guard let opening = work.open(link: token, from: peer) else { return exchange.reply(HTTPReply(Page.busy)) }
    answer(exchange, with: opening, within: configuration.handlerDeadline, else: HTTPReply(Page.linkTooSlow)) {
      HTTPReply(Page($0))
    }
  }

  private func logOut(_ provider: String, _ form: ByteBuffer, _ exchange: HTTPExchange) {
    guard form.readableBytes > 0 else { return exchange.reply(HTTPReply(Refusal.empty)) }
    guard let outcome = work.logOut(provider, form) else { return exchange.reply(HTTPReply(Refusal.busy)) }
    answer(exchange, with: outcome, within: configuration.logoutDeadline, else: HTTPReply(Refusal.tooSlow)) {
      HTTPReply($0)
    }
  }

  /// With the result of the work; without one by the deadline, with this.
  private func answer<Outcome: Sendable>(
    _ exchange: HTTPExchange, with outcome: EventLoopFuture<Outcome>.Isolated, within deadline: Duration,
    else late: HTTPReply, _ reply: @escaping (Outcome) -> HTTPReply
  ) {
    let logger = context.logger
    let timer = exchange.loop.scheduleTask(in: TimeAmount(deadline)) {
      logger.warning("callback request not handled in time", metadata: ["deadline": "\(deadline)"])
      exchange.reply(late)
    }
    exchange.onEnd { timer.cancel() }
    outcome.whenSuccess { exchange.reply(reply($0)) }
  }
}
