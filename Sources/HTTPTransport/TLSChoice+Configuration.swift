import AsyncHTTPClient
import Broker
import NIOCore
import NIOPosix
import NIOSSL
import OAuth

extension Clients {
  static func client(_ tls: TLSConfiguration, connections: Int, at place: Key.Place?) -> HTTPClient {
    var tls = tls
    // RFC 9325 §3.1.1: nothing older may be negotiated.
    tls.minimumTLSVersion = .tlsv12
    var configuration = HTTPClient.Configuration(
      tlsConfiguration: tls, redirectConfiguration: .disallow,
      timeout: .init(connect: place?.isOneOfMany == true ? shortConnectTimeout : connectTimeout),
      decompression: .disabled)
    // The certificate and the Host header stay those of the name.
    if let place { configuration.dnsOverride = [place.host: place.address] }
    // A pooled connection that the server has closed would make a request look lost that was never taken.
    configuration.connectionPool.idleTimeout = .seconds(5)
    configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connections
    // The broker has its own pace for trying again.
    configuration.connectionPool.retryConnectionEstablishment = false
    // HTTP/2 would carry all of a provider's requests over one connection: where that is dead, as after a change of the
    // network, every refresh and every probe would wait on it.
    configuration.httpVersion = .http1Only
    configuration.http1_1ConnectionDebugInitializer = { StatusCheck.install(on: $0) }
    return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
  }
}

extension TLSChoice {
  /// The system's authorities and those of the choice, and the client's certificate (RFC 8705 §2).
  func configuration() throws(TransportError) -> TLSConfiguration {
    var tls = SystemAuthorities.configuration()
    if let authorities {
      tls.additionalTrustRoots += [.certificates(try Self.certificates(authorities, "tls_ca_file"))]
    }
    if let certificates {
      tls.certificateChain = try Self.certificates(certificates, "tls_certificate_file").map { .certificate($0) }
    }
    if let key {
      do {
        // Exposed to be used by the TLS library.
        tls.privateKey = .privateKey(try NIOSSLPrivateKey(bytes: Array(key.exposed.utf8), format: .pem))
      } catch {
        throw Self.unusable("the key of tls_certificate_file cannot be read")
      }
    }
    do {
      // The connections make their own; this one says now whether they can.
      _ = try NIOSSLContext(configuration: tls)
    } catch {
      throw Self.unusable("tls_certificate_file and its key do not belong together, or cannot be used")
    }
    return tls
  }

  private static func certificates(_ pem: some Sequence<UInt8>, _ key: String) throws(TransportError)
    -> [NIOSSLCertificate]
  {
    let found = (try? NIOSSLCertificate.fromPEMBytes(Array(pem))) ?? []
    guard !found.isEmpty else { throw unusable("\(key) has a certificate that cannot be read") }
    return found
  }

  private static func unusable(_ reason: String) -> TransportError {
    TransportError(.notSent, "no secure connection is tried: \(reason)", cause: .tls)
  }
}
