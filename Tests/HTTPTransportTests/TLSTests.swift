import Broker
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import OAuth
import Synchronization
import TestSupport
import Testing

@testable import HTTPTransport

/// A server of HTTP over TLS, which says the name in the client's certificate.
private struct SecureServer {
  static func with(
    _ certificates: Certificates, as name: String = "server", asksForCertificate: Bool, breaksOff: Bool = false,
    stopsReading: Bool = false, _ body: (URL) async throws -> Void
  ) async throws {
    var tls = TLSConfiguration.makeServerConfiguration(
      certificateChain: try NIOSSLCertificate.fromPEMBytes(Array(certificates.pem(name))).map { .certificate($0) },
      privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(certificates.key(name).utf8), format: .pem)))
    // What is answered below is HTTP/1.1: a client that takes HTTP/2 gets nothing.
    tls.applicationProtocols = ["h2", "http/1.1"]
    if asksForCertificate {
      tls.certificateVerification = .noHostnameVerification
      tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(certificates.pem("authority"))))
    }
    let context = try NIOSSLContext(configuration: tls)
    try await TestServer.with("https", path: "/token") { channel in
      let pipeline = channel.pipeline.syncOperations
      let secure = NIOSSLServerHandler(context: context)
      try pipeline.addHandler(secure)
      try pipeline.configureHTTPServerPipeline()
      try pipeline.addHandler(Answering(secure: secure, breaksOff: breaksOff, stopsReading: stopsReading))
    } _: {
      try await body($0)
    }
  }

  private final class Answering: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let secure: NIOSSLServerHandler
    /// Says no length, and ends the connection without TLS's own word for it (RFC 8446 §6.1).
    private let breaksOff: Bool
    /// Reads nothing after its answer, also not that the client ends.
    private let stopsReading: Bool

    init(secure: NIOSSLServerHandler, breaksOff: Bool, stopsReading: Bool) {
      self.secure = secure
      self.breaksOff = breaksOff
      self.stopsReading = stopsReading
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      guard case .end = unwrapInboundIn(data) else { return }
      let subject = secure.peerCertificate.map { "\($0)" } ?? "nobody"
      let name = ["other-client", "client"].first { subject.contains($0) }
      guard !breaksOff else { return breakOff(context) }
      if stopsReading { try? context.channel.syncOptions?.setOption(.autoRead, value: false) }
      let body = ByteBuffer(string: name ?? "nobody")
      let head = HTTPResponseHead(
        version: .http1_1, status: .ok, headers: ["Content-Length": "\(body.readableBytes)"])
      context.write(wrapOutboundOut(.head(head)), promise: nil)
      context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
      context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }

    private func breakOff(_ context: ChannelHandlerContext) {
      context.write(wrapOutboundOut(.head(HTTPResponseHead(version: .http1_0, status: .ok))), promise: nil)
      context.writeAndFlush(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: "{}")))), promise: nil)
      try? context.pipeline.syncOperations.context(handler: secure).close(promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      context.close(promise: nil)
    }
  }
}

@Suite("Connections with separate certificates")
struct TLSTests {
  private let certificates: Certificates

  init() throws {
    certificates = try Certificates()
  }

  private func choice(authority: String? = "authority", client: String? = nil, key: String? = nil) throws -> TLSChoice {
    TLSChoice(
      authorities: try authority.map(certificates.pem), certificates: try client.map(certificates.pem),
      key: try (key ?? client).map { Secret(try certificates.key($0)) })
  }

  private func ask(
    _ transport: HTTPTransport, _ url: URL, _ choice: TLSChoice?
  ) async -> Result<String, TransportError> {
    var request = HTTPRequest(purpose: .token, method: "POST", url: url)
    request.tls = choice
    do throws(TransportError) {
      return .success(String(decoding: try await transport.send(request, over: .test).body, as: UTF8.self))
    } catch {
      return .failure(error)
    }
  }

  private func error(_ result: Result<String, TransportError>) -> TransportError? {
    if case .failure(let error) = result { error } else { nil }
  }

  @Test("A private authority is trusted only for its provider")
  func privateAuthority() async throws {
    let transport = HTTPTransport(userAgent: "test")
    let named = try choice()
    let wrong = try choice(authority: "other-authority")
    try await SecureServer.with(certificates, asksForCertificate: false) { url in
      #expect(await ask(transport, url, named) == .success("nobody"))
      for choice in [nil, wrong] {
        let error = error(await ask(transport, url, choice))
        #expect(error?.cause == .certificate && error?.kind == .notSent, "\(String(describing: error))")
      }
      // What one choice opened is not used for another.
      #expect(await ask(transport, url, named) == .success("nobody"))
    }
    await transport.close()
  }

  @Test("An answer without a length is whole where its JSON is, though TLS was broken off")
  func brokenOff() async throws {
    let transport = HTTPTransport(userAgent: "test")
    let choice = try choice()
    try await SecureServer.with(certificates, asksForCertificate: false, breaksOff: true) { url in
      for _ in 0..<50 { #expect(await ask(transport, url, choice) == .success("{}")) }
    }
    await transport.close()
  }

  @Test("A connection that ends gets no request, however long its end takes")
  func ending() async throws {
    let slept = Mutex(Duration.zero)
    let transport = HTTPTransport(
      userAgent: "test", uptime: { .nanoseconds(NIODeadline.now().uptimeNanoseconds) + slept.withLock { $0 } })
    let named = try choice()
    try await SecureServer.with(certificates, asksForCertificate: false, stopsReading: true) { url in
      let answer1 = await ask(transport, url, named)
      #expect(answer1 == .success("nobody"))
      // Idle for too long now: it is closed, which the other side does not confirm.
      slept.withLock { $0 = .seconds(60) }
      for loop in MultiThreadedEventLoopGroup.singleton.makeIterator() {
        try await loop.submit { transport.upstreams(on: loop).checkTimes() }.get()
      }
      let answer2 = await ask(transport, url, named)
      #expect(answer2 == .success("nobody"))
      // At once: the machine may have slept.
      slept.withLock { $0 = .seconds(120) }
      let answer3 = await ask(transport, url, named)
      #expect(answer3 == .success("nobody"))
    }
    await transport.close()
  }

  @Test("A name that was looked up before is still the one in the certificate")
  func name() async throws {
    let transport = HTTPTransport(
      userAgent: "test", names: NameLookups(["provider.test": ["127.0.0.1"], "other.test": ["127.0.0.1"]]))
    let choice = try choice()
    try await SecureServer.with(certificates, as: "named-server", asksForCertificate: false) { url in
      func named(_ host: String) throws -> URL { try #require(URL(string: "https://\(host):\(url.port ?? 0)/token")) }
      #expect(await ask(transport, try named("provider.test"), choice) == .success("nobody"))
      let error = error(await ask(transport, try named("other.test"), choice))
      #expect(error?.cause == .certificate && error?.kind == .notSent, "\(String(describing: error))")
    }
    await transport.close()
  }

  @Test("A server that asks for a certificate gets the one of this choice (RFC 8705 §2)")
  func clientCertificate() async throws {
    let transport = HTTPTransport(userAgent: "test")
    let client = try choice(client: "client")
    let other = try choice(client: "other-client")
    let without = try choice()
    let unknown = try choice(client: "other-authority")
    try await SecureServer.with(certificates, asksForCertificate: true) { url in
      #expect(await ask(transport, url, client) == .success("client"))
      #expect(await ask(transport, url, other) == .success("other-client"))
      #expect(await ask(transport, url, client) == .success("client"))
      #expect(
        error(await ask(transport, url, without))
          == TransportError(
            .notSent,
            "127.0.0.1 takes no connection without a client certificate: set tls_certificate_file and tls_key_file",
            cause: .tls))
      #expect(
        error(await ask(transport, url, unknown))
          == TransportError(
            .notSent, "127.0.0.1 does not accept the client's certificate (unknown ca)", cause: .tls))
    }
    await transport.close()
  }

  @Test("Unusable certificates are reported before anything is sent, without their content")
  func unusable() async throws {
    let transport = HTTPTransport(userAgent: "test")
    let url = try #require(URL(string: "https://127.0.0.1:1/token"))
    var noKey = try choice(client: "client")
    noKey.key = Secret("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    let broken = Data("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".utf8)
    let cases: [(TLSChoice, String)] = [
      (TLSChoice(authorities: broken), "tls_ca_file has a certificate that cannot be read"),
      (TLSChoice(certificates: broken), "tls_certificate_file has a certificate that cannot be read"),
      (noKey, "the key of tls_certificate_file cannot be read"),
      (
        try choice(client: "client", key: "other-client"),
        "tls_certificate_file and its key do not belong together, or cannot be used"
      ),
    ]
    for (choice, reason) in cases {
      let error = error(await ask(transport, url, choice))
      #expect(error == TransportError(.notSent, "no secure connection is tried: \(reason)", cause: .tls))
    }
    await transport.close()
  }

  @Test("What secures connections is made once for each choice, and is gone with the last that chose it")
  func shared() async throws {
    let contexts = TLSContexts()
    let (one, other) = (try choice(), try choice(client: "client"))
    var first: NIOSSLContext? = try contexts.context(of: one)
    #expect(try contexts.context(of: one) === first && contexts.context(of: other) !== first)
    let plain = try contexts.context(of: nil)
    #expect(try contexts.context(of: nil) === plain && plain !== first)
    weak let kept = first
    first = nil
    #expect(kept == nil)
  }
}
