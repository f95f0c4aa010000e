/// A protocol whose answer is not the token: another server gives something for it.
public protocol Exchanging: CredentialProtocol {
  func exchange(_ token: IssuedToken) throws(Malformed) -> WebRequest
  func outcome(status: Int, body: [UInt8]) throws(Problem) -> ExchangeOutcome
}

extension Exchanging {
  public func answer(_ token: IssuedToken) throws(Malformed) -> Reply {
    throw Malformed("the token is exchanged first")
  }
}

public enum ExchangeOutcome: Sendable, Equatable {
  case answer(Reply)
  /// The server says that the token has ended.
  case rejected(Problem)
}

/// A form that is posted.
public struct WebRequest: Sendable, Equatable {
  public var url: String
  public var form: [Field]

  public struct Field: Sendable, Equatable {
    public var name: String
    public var value: String
  }

  public init(url: String, form: [(String, String)]) {
    self.url = url
    self.form = form.map { Field(name: $0.0, value: $0.1) }
  }

  /// application/x-www-form-urlencoded, with each reserved character escaped.
  public var body: String {
    form.map { Self.escaped($0.name) + "=" + Self.escaped($0.value) }.joined(separator: "&")
  }

  private static func escaped(_ text: String) -> String {
    var result = ""
    for byte in text.utf8 {
      let isPlain =
        (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
        || [0x2D, 0x2E, 0x5F, 0x7E].contains(byte)
      if isPlain {
        result.unicodeScalars.append(Unicode.Scalar(byte))
      } else {
        let digits = String(byte, radix: 16, uppercase: true)
        result += "%" + (digits.count == 1 ? "0" : "") + digits
      }
    }
    return result
  }
}
