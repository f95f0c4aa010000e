public import BlockingClient
public import BrokerAPI

extension SocketClient {
  /// Calls a method. Without a `timeout` the broker's own deadline for the method is the only one.
  public func call<Method: RPCMethod>(
    _ method: Method.Type, _ params: Method.Params, timeout: Duration? = nil
  ) async throws(SocketClientError) -> Method.Result {
    let result = try await call(method: Method.name, params: JSON(encoding: params), timeout: timeout)
    do throws(ParamsError) {
      return try result.decode(Method.Result.self, root: "result")
    } catch {
      throw .malformed(error.description)
    }
  }
}
