public import Broker
public import FoundationEssentials
public import NIOCore
import NIOHTTP1
import NIOPosix
public import OAuth
import Synchronization

/// Sends requests by HTTP/1.1: no redirects, every body and time of the broker's own requests limited, and connections
/// shared only by requests with the same pool and certificates.
public final class HTTPTransport: Transport {
  /// The largest body that is read.
  static let largestBody = 1 << 20
  /// From the call on to the response's last byte, in time in which this process ran.
  public static let deadline = Duration.seconds(30)
  /// Revocations delay a user's logout.
  static let revocationDeadline = Duration.seconds(10)

  private let all: AllUpstreams
  private let names: NameLookups
  private let loops = Array(MultiThreadedEventLoopGroup.singleton.makeIterator())
  private let userAgent: String
  private let deadline: Duration

  /// - Parameters:
  ///   - deadline: from the call to the response's last byte.
  ///   - uptime: since boot, including suspended time.
  public convenience init(
    userAgent: String, deadline: Duration = HTTPTransport.deadline, uptime: @escaping @Sendable () -> Duration
  ) {
    self.init(userAgent: userAgent, deadline: deadline, names: NameLookups(), uptime: uptime)
  }

  init(
    userAgent: String, deadline: Duration = HTTPTransport.deadline, names: NameLookups = NameLookups(),
    uptime: @escaping @Sendable () -> Duration = { .nanoseconds(NIODeadline.now().uptimeNanoseconds) }
  ) {
    self.deadline = deadline
    self.userAgent = userAgent
    self.names = names
    all = AllUpstreams(names: names, uptime: uptime)
  }

  /// The requests of one event loop. Called on it.
  public func upstreams(on loop: any EventLoop) -> Upstreams { all.on(loop) }

  /// The proxies for requests from now on.
  public func use(_ proxies: HTTPProxies) { all.use(proxies) }

  public func proxy(for url: URL) -> HTTPProxy? { all.currentProxies.proxy(for: url) }

  public func close() async {
    await all.close()
  }

  public func send(
    _ request: HTTPRequest, over pool: ConnectionPool, late: LateAnswer?
  ) async throws(TransportError) -> HTTPResponse {
    let message = try message(request, over: pool)
    let host = message.server.peer(via: all.currentProxies.proxy(for: message.server))
    let limit = request.purpose == .revocation ? min(Self.revocationDeadline, deadline) : deadline
    let arrived = ArrivedAnswer(limit: Self.largestBody, mustDecode: request.purpose != .resource)
    let silence = TransportError(.timedOut, "\(host) did not answer in time", cause: .silence)
    let unsent = TransportError(.notSent, "no connection to \(host) in time", cause: .silence)
    do {
      return try await withThrowingTaskGroup(of: HTTPResponse.self) { group in
        group.addTask { try await self.exchange(message, into: arrived) }
        group.addTask {
          try await RunningTime().sleep(for: limit)
          guard arrived.giveUp() else { throw unsent }
          if let answer = arrived.whole { return answer }
          if let late {
            late.isOverdue(silence)
            try await RunningTime().sleep(for: late.limit - limit)
            if let answer = arrived.whole { return answer }
          }
          throw silence
        }
        defer { group.cancelAll() }
        guard let response = try await group.next() else { throw CancellationError() }
        return response
      }
    } catch let error as TransportError {
      throw error
    } catch {
      throw TransportError(
        arrived.giveUp() ? .lost : .notSent, "the request to \(host) was given up before the answer")
    }
  }

  public func scope(of url: URL) async throws(TransportError) -> AddressScope {
    let host = (url.host() ?? "").lowercased().filter { $0 != "[" && $0 != "]" }
    if let scope = AddressScope(host) { return scope }
    // The proxy looks the name up.
    guard proxy(for: url) == nil else { return .global }
    // The first is the one that last answered.
    return try await names.addresses(of: host).first.flatMap { AddressScope($0) } ?? .global
  }

  private func message(
    _ request: HTTPRequest, over pool: ConnectionPool
  ) throws(TransportError) -> UpstreamRequest {
    guard let server = UpstreamServer(request.url, over: pool, tls: request.tls) else {
      throw TransportError(.notSent, "\(request.url.absoluteString.printable(limit: 256)) is not a URL of a server")
    }
    var headers: HTTPHeaders = ["Host": server.authority]
    for header in request.headers {
      guard header.isSendable else {
        throw TransportError(.notSent, "the header \(header.name) has control characters")
      }
      headers.add(name: header.name, value: header.value)
    }
    headers.replaceOrAdd(name: "User-Agent", value: userAgent)
    // Without it any coding is allowed (RFC 9110 §12.5.3).
    headers.replaceOrAdd(name: "Accept-Encoding", value: "identity")
    // RFC 9110 §8.6: where a method has a body as a rule, none is said to be one of no bytes.
    if request.body != nil || ["POST", "PUT", "PATCH"].contains(request.method) {
      headers.replaceOrAdd(name: "Content-Length", value: String(request.body?.count ?? 0))
    }
    return UpstreamRequest(
      server: server,
      head: HTTPRequestHead(
        version: .http1_1, method: HTTPMethod(rawValue: request.method), uri: request.url.requestTarget,
        headers: headers),
      body: request.body.map { .whole(ByteBuffer(bytes: $0)) } ?? .none,
      // The broker has its own pace for trying again, and a GET of a provider's may begin a login.
      isRepeatable: false, latestSend: request.latestSend)
  }

  /// Requests to one server are sent on one loop, so that they share its connections.
  private func exchange(_ message: UpstreamRequest, into arrived: ArrivedAnswer) async throws -> HTTPResponse {
    let loop = loops[Int(UInt(bitPattern: message.server.hashValue) % UInt(loops.count))]
    let pending = Mutex<(isCancelled: Bool, exchange: NIOLoopBound<AnswerReader>?)>((false, nil))
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        loop.execute { [all] in
          guard !pending.withLock({ $0.isCancelled }) else { return continuation.resume(throwing: CancellationError()) }
          let reader = AnswerReader(arrived, continuation)
          reader.exchange = all.on(loop).send(message, to: reader)
          let bound = NIOLoopBound(reader, eventLoop: loop)
          let isCancelled = pending.withLock { pending in
            pending.exchange = bound
            return pending.isCancelled
          }
          if isCancelled { reader.cancel() }
        }
      }
    } onCancel: {
      let reader = pending.withLock { pending in
        pending.isCancelled = true
        return pending.exchange
      }
      if let reader { loop.execute { reader.value.cancel() } }
    }
  }
}

/// Reads the answer to one of the broker's own requests. Lives on its loop.
private final class AnswerReader: UpstreamReceiver {
  private let arrived: ArrivedAnswer
  private var continuation: CheckedContinuation<HTTPResponse, any Error>?
  var exchange: UpstreamExchange?

  init(_ arrived: ArrivedAnswer, _ continuation: CheckedContinuation<HTTPResponse, any Error>) {
    self.arrived = arrived
    self.continuation = continuation
  }

  func cancel() { end(.failure(CancellationError())) }

  func upstreamMaySend() -> Bool { arrived.maySend() }

  func upstreamBegan(_ head: HTTPResponseHead) { arrived.begin(head) }

  func upstreamSent(_ part: ByteBuffer) {
    do { try arrived.add(part) } catch { end(.failure(error)) }
  }

  func upstreamEnded() {
    do { end(try arrived.ended.map { .success($0) } ?? .failure(CancellationError())) } catch { end(.failure(error)) }
  }

  func upstreamFailed(_ error: TransportError) { end(arrived.whole.map { .success($0) } ?? .failure(error)) }

  private func end(_ result: Result<HTTPResponse, any Error>) {
    exchange?.cancel()
    exchange = nil
    continuation?.resume(with: result)
    continuation = nil
  }
}
