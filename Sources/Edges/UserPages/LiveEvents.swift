import Broker
import BrokerAPI
import HTTPServer
import Loopback
import NIOCore
import NIOHTTP1
import Principals
import Synchronization

/// Server-sent events (HTML §9.2) for one open page: the subscription of `events.subscribe`, without its contents. The page
/// then loads its view again.
final class LiveEvents: Session {
  let visit: String
  let principal: Principal
  private let pages: UserPages
  private let exchange: HTTPExchange
  /// An event is written, and the client has not read it: the next ones add nothing.
  private let isBlocked = Atomic(false)
  /// An unsent event is one that the user waits for.
  private let isUrgent = Atomic(false)

  /// Refreshes come all day: a page shows them later.
  private static let later: Set<String> = Set(
    [EventType.tokenRefreshed, .fileWritten, .providerUnreachable, .providerRecovered].map(\.rawValue))

  init(_ pages: UserPages, _ visit: Visits.Visit, _ principal: Principal, _ exchange: HTTPExchange) {
    self.visit = visit.id
    self.principal = principal
    self.pages = pages
    self.exchange = exchange
  }

  /// On the connection's event loop.
  func begin() {
    pages.began(self)
    exchange.onEnd { [self] in pages.ended(self) }
    Task { [self] in
      let session = HTTPSession(principal, exchange)
      if await session.enter(pages.broker.entrance) != nil { return exchange.reply(.retryEvents) }
      defer { session.decided() }
      switch await pages.broker.perform(EventsSubscribe.self, .init(), by: self) {
      case .success: start()
      case .failure(let error): exchange.reply(error.reason == .notPermitted ? .noEvents : .retryEvents)
      }
    }
  }

  private func start() {
    exchange.loop.execute { [exchange] in
      var headers = HTTPReply.common
      headers.add(name: "Content-Type", value: "text/event-stream")
      headers.add(name: "Transfer-Encoding", value: "chunked")
      exchange.begin(HTTPResponseHead(version: .http1_1, status: .ok, headers: headers))
      exchange.write(ByteBuffer(string: "retry: 3000\n\nevent: ready\ndata:\n\n"))
      exchange.flush()
    }
  }

  func end() {
    exchange.loop.execute { [exchange] in exchange.end() }
  }

  // MARK: Session

  var isReading: Bool { exchange.isOpen }

  func notify(method: String, params: JSON) -> Bool {
    guard exchange.isOpen else { return false }
    signal(isUrgent: !Self.later.contains(params["type"]?.string ?? ""))
    return true
  }

  /// Something of the page itself has changed.
  func poke() {
    if exchange.isOpen { signal(isUrgent: true) }
  }

  private func signal(isUrgent: Bool) {
    if isUrgent { self.isUrgent.store(true, ordering: .releasing) }
    guard !isBlocked.exchange(true, ordering: .acquiringAndReleasing) else { return }
    exchange.loop.execute { [self] in
      guard exchange.isWritable else { return exchange.onWritable { [self] in send() } }
      send()
    }
  }

  private func send() {
    isBlocked.store(false, ordering: .releasing)
    let isUrgent = isUrgent.exchange(false, ordering: .acquiringAndReleasing)
    exchange.write(ByteBuffer(string: isUrgent ? "data: now\n\n" : "data: later\n\n"))
    exchange.flush()
  }

  func holdOpen() {}
  func onClose(_ action: @escaping @Sendable () -> Void) { exchange.onEnd(action) }
}

// An event source connects again only after a stream that ends (HTML §9.2.3).
extension HTTPReply {
  /// Milliseconds until the page connects again after a refusal.
  private static let retryDelay = 30_000

  /// Too many subscriptions or requests: the page connects again later.
  static var retryEvents: HTTPReply {
    var headers = common
    headers.add(name: "Content-Type", value: "text/event-stream")
    return HTTPReply(.ok, headers, body: ByteBuffer(string: "retry: \(retryDelay)\n\n"))
  }

  /// The page does not connect again.
  static var noEvents: HTTPReply { HTTPReply(.noContent, common) }
}
