import Broker
import NIOCore
import NIOHTTP1
import NIOSSL
import OAuth

/// How a connection to a server is made: directly, by CONNECT through a proxy, or with each request sent to the proxy.
struct UpstreamRoute: Sendable {
  let server: UpstreamServer
  let proxy: HTTPProxy?
  /// The proxy's addresses, or the server's. The proxy looks up the server's name.
  var addresses: ArraySlice<String>
  /// Nil: a connection in the clear.
  let context: NIOSSLContext?

  init(
    to server: UpstreamServer, via proxy: HTTPProxy?, _ names: NameLookups, _ contexts: TLSContexts
  ) async throws(TransportError) {
    self.server = server
    self.proxy = proxy
    if let proxy {
      if SystemResolver.isAddress(server.host) { _ = try server.within([server.host]) }
      addresses = try await Self.addresses(of: proxy, names)[...]
    } else {
      let isAddress = SystemResolver.isAddress(server.host)
      addresses = try server.within(isAddress ? [server.host] : try await names.addresses(of: server.host))[...]
    }
    context = server.isSecure ? try contexts.context(of: server.tls) : nil
  }

  private static func addresses(of proxy: HTTPProxy, _ names: NameLookups) async throws(TransportError) -> [String] {
    guard !SystemResolver.isAddress(proxy.host) else { return [proxy.host] }
    do {
      return try await names.addresses(of: proxy.host)
    } catch {
      let reason = error.message.split(separator: ": ", maxSplits: 1).last.map(String.init) ?? error.message
      throw TransportError(.notSent, "no connection to the proxy \(proxy.authority): \(reason)", cause: .proxy)
    }
  }

  /// The port of the addresses.
  var port: Int { proxy?.port ?? server.port }

  /// The proxy that is asked for a connection to the server.
  var tunnel: HTTPProxy? { server.isSecure ? proxy : nil }

  /// For people: the server, and the proxy in between.
  var peer: String { server.peer(via: proxy) }

  /// Adds the handlers of HTTP and TLS.
  func add(_ connection: UpstreamConnection, to channel: any Channel) throws {
    guard tunnel == nil || channel.isActive else {
      throw TransportError(.notSent, "no secure connection to \(peer): it hung up", cause: .tls)
    }
    let pipeline = channel.pipeline.syncOperations
    if let context {
      // The library compares a numeric host with the addresses of the certificate by itself.
      let name = SystemResolver.isAddress(server.host) ? nil : server.host
      try pipeline.addHandler(NIOSSLClientHandler(context: context, serverHostname: name))
    }
    var framing = HTTPRequestEncoder.Configuration()
    framing.automaticallySetFramingHeaders = false
    try pipeline.addHandlers([
      HTTPRequestEncoder(configuration: framing),
      ByteToMessageHandler(HTTPResponseDecoder(leftOverBytesStrategy: .dropBytes)),
      connection,
    ])
  }

  // MARK: Errors

  /// Why no connection was made.
  func error(_ error: any Error, isTunnelOpen: Bool) -> TransportError {
    guard let proxy, !isTunnelOpen else { return TransportError(error, host: peer, isOpen: false) }
    return TransportError(error, host: "the proxy \(proxy.authority)", isOpen: false)
  }

  /// The same with its cause: an administrator looks at the proxy first.
  func named(_ error: TransportError) -> TransportError {
    var error = error
    if proxy != nil, error.isOfAddress || error.cause == .other { error.cause = .proxy }
    return error
  }

  /// The request as its connection gets it: with a whole URL for a proxy (RFC 9112 §3.2.2).
  func head(_ head: HTTPRequestHead) -> HTTPRequestHead {
    guard let proxy, !server.isSecure else { return head }
    var head = head
    head.uri = "http://\(server.authority)\(head.uri)"
    if let authorization = proxy.authorization {
      head.headers.replaceOrAdd(name: "Proxy-Authorization", value: authorization)
    }
    return head
  }

  /// A proxy's refusal of a request in the clear; nil: the answer is the server's.
  func refusal(_ head: HTTPResponseHead) -> TransportError? {
    guard let proxy, !server.isSecure, head.status == .proxyAuthenticationRequired else { return nil }
    return ProxyTunnel.refusal(of: proxy, head, server)
  }
}

extension UpstreamServer {
  /// The server for people, with the proxy in between.
  func peer(via proxy: HTTPProxy?) -> String {
    proxy.map { "\(host) through the proxy \($0.authority)" } ?? host
  }

  /// The addresses that the reach of the pool allows.
  fileprivate func within(_ addresses: [String]) throws(TransportError) -> [String] {
    guard let reach = pool.reach else { return addresses }
    let allowed = addresses.filter { AddressScope($0).map { $0 <= reach } ?? false }
    if allowed.isEmpty, let other = addresses.first {
      let words = (AddressScope(other) ?? .link).words
      throw TransportError(
        .notSent, "\(host) has \(words) (\(other)), which the document of a server must not name", cause: .reach)
    }
    return allowed
  }
}
