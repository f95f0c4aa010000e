import Broker
import NIOSSL
import OAuth

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
