import Broker
import FoundationEssentials
import NIOCore
import NIOPosix
import NIOSSL
import OAuth

extension TransportError {
  /// The meaning of a connection's error. The main question is whether anything was sent: an unsent request may be
  /// repeated freely. The cause is for users.
  ///
  /// - Parameter isOpen: a request may have been sent on it. The error's number does not tell: read(2) fails with
  ///   ECONNREFUSED or EHOSTUNREACH too, if sent data are not acknowledged (tcp(7)).
  init(_ error: any Error, host: String, isOpen: Bool) {
    switch error {
    case let error as TransportError: self = error
    case ChannelError.connectTimeout: self.init(.notSent, "no connection to \(host) in time", cause: .silence)
    case NIOSSLError.handshakeFailed, is NIOSSLExtraError: self.init(handshake: error, host: host)
    case let error as IOError where !isOpen:
      self.init(
        .notSent, "no connection to \(host): \(Self.words(error.errnoCode))", cause: Self.cause(error.errnoCode))
    default:
      if let refusal = Self.clientRefusal("\(error)") {
        self.init(.notSent, "\(host) \(refusal)", cause: .tls)
      } else if isOpen {
        self.init(.lost, "the connection to \(host) failed: \(Self.reason(error))")
      } else {
        self.init(.notSent, "no connection to \(host): \(error)", cause: .tls)
      }
    }
  }

  /// Whether nothing answers at the address: another one of the name may.
  var isOfAddress: Bool {
    guard kind == .notSent else { return false }
    return switch cause {
    case .refused, .unreachable, .silence: true
    case .nameLookup, .certificate, .tls, .reach, .proxy, .proxyCredentials, .other: false
    }
  }

  /// A server may refuse the client certificate after this side's handshake (RFC 8446 §4.4.2.4): it then accepts none
  /// of the sent data.
  private static func clientRefusal(_ text: String) -> String? {
    let alerts = [
      "BAD_CERTIFICATE", "UNSUPPORTED_CERTIFICATE", "CERTIFICATE_REVOKED", "CERTIFICATE_EXPIRED", "CERTIFICATE_UNKNOWN",
      "UNKNOWN_CA", "ACCESS_DENIED",
    ]
    if text.contains("ALERT_CERTIFICATE_REQUIRED") {
      return "takes no connection without a client certificate: set tls_certificate_file and tls_key_file"
    }
    guard let alert = alerts.first(where: { text.contains("ALERT_\($0)") }) else { return nil }
    return "does not accept the client's certificate (\(alert.replacing("_", with: " ").lowercased()))"
  }

  /// The library reports the fault of a certificate only in its text.
  private init(handshake error: any Error, host: String) {
    let text = "\(error)"
    if let refusal = Self.clientRefusal(text) {
      self.init(.notSent, "\(host) \(refusal)", cause: .tls)
    } else if text.contains("CERTIFICATE_VERIFY_FAILED") {
      self.init(
        .notSent,
        "the certificate of \(host) is not to be trusted: expired, not yet valid, or of an unknown authority",
        cause: .certificate)
    } else if let error = error as? NIOSSLExtraError, error == .failedToValidateHostname {
      self.init(.notSent, "the certificate of \(host) is for another name", cause: .certificate)
    } else {
      self.init(.notSent, "no secure connection to \(host): \(Self.tlsReason(text))", cause: .tls)
    }
  }

  /// `wrong version number`, of a text with numbers and source files around it.
  private static func tlsReason(_ text: String) -> String {
    guard let mark = text.firstRange(of: "OPENSSL_internal:") else { return "the handshake failed" }
    let reason = text[mark.upperBound...].prefix { $0.isUppercase || $0.isNumber || $0 == "_" }
    return reason == "WRONG_VERSION_NUMBER"
      ? "the server does not use TLS" : reason.replacing("_", with: " ").lowercased()
  }

  private static func cause(_ code: CInt) -> Cause {
    switch code {
    case ECONNREFUSED: .refused
    case ETIMEDOUT: .silence
    case EMFILE, ENFILE, ENOBUFS, ENOMEM: .other
    case ECONNRESET, EPIPE: .tls
    default: .unreachable
    }
  }

  /// The cause in words: the text of an `IOError` names a function of the library.
  private static func reason(_ error: any Error) -> String {
    switch error {
    case let error as IOError: words(error.errnoCode)
    case ChannelError.eof, ChannelError.inputClosed, ChannelError.ioOnClosedChannel: "it was closed"
    case NIOSSLError.uncleanShutdown: "it was closed without an end of TLS"
    default: "\(error)"
    }
  }

  private static func words(_ code: CInt) -> String { String(cString: strerror(code)).lowercased() }
}
