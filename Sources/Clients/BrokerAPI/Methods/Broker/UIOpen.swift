/// The web page of a user.
public enum UIOpen: RPCMethod {
  public static let name = "ui.open"
  public static let access = Access.open
  public static let summary =
    "Opens the web page of the caller: listens on a loopback port while the page is in use, and returns a link that works once."
  public static let errors: [ErrorReason] = [.temporarilyUnavailable]

  public struct Params: Codable, Sendable, Equatable {
    public var browser_uid: UInt32?

    public init(browser_uid: UInt32? = nil) {
      self.browser_uid = browser_uid
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var url: String
    public var port: Int
    public var expires_at: Int64

    public init(url: String, port: Int, expires_at: Int64) {
      self.url = url
      self.port = port
      self.expires_at = expires_at
    }
  }

  public static let paramDocs = [
    "browser_uid":
      "The user whose browser opens the page, and whose rules apply to it. Only a privileged caller may name another user. Default: the caller's."
  ]
  public static let resultDocs = [
    "url": "The link. It works once, in a browser of that user.",
    "port": "The port on 127.0.0.1, such as for `ssh -L`.",
    "expires_at": "When an unused link ends, in Unix seconds.",
  ]
  public static let example = MethodExample(
    params: .null,
    result: [
      "url": "http://127.0.0.1:40817/open/b2Zm0vQx7o1Wl3TtqYk9eA", "port": 40817, "expires_at": 1_767_225_720,
    ])
}
