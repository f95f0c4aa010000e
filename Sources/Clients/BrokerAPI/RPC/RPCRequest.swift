/// One call, already a valid JSON-RPC request object (JSON-RPC 2.0 §4).
public struct RPCRequest: Sendable {
  public var method: String
  /// An object, an array, or absent.
  public var params: JSON?
  public var isNotification: Bool

  public init(method: String, params: JSON?, isNotification: Bool) {
    self.method = method
    self.params = params
    self.isNotification = isNotification
  }
}
