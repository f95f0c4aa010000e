import BrokerAPI

/// A method with its implementation. It stands in the file of the piece that does the work.
protocol Served: RPCMethod {
  static var subject: Subject<Params> { get }
  /// The access for this request: ``access``, or for some parameters another kind.
  static func access(for params: Params) -> Access
  /// Every kind of access that a request of this method may take.
  static var accesses: [Access] { get }
  /// Once the caller is permitted to call it.
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result
  /// What is sent to the provider's API; nil: nothing.
  static func request(_ params: Params, by broker: Broker) async -> APIRequest?
  /// ``answer(_:by:)``, with what all methods of its family need before and after.
  static func serve(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result
}

/// What the caller must be permitted to use.
enum Subject<Params> {
  /// The broker itself, with all its accounts.
  case broker
  /// The account that the request names.
  case account(@Sendable (Params) -> String)
  /// Any one account; the method looks at each by itself.
  case someAccount
}

/// A request whose caller is permitted to make it.
struct Call<Method: RPCMethod>: Sendable {
  var params: Method.Params
  let session: any Session
  var permission: Permission

  var caller: Caller { session.caller }
}

extension Served {
  static var subject: Subject<Params> { .broker }
  static func access(for params: Params) -> Access { access }
  static var accesses: [Access] { [access] }
  static func request(_ params: Params, by broker: Broker) async -> APIRequest? { nil }

  static func serve(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await answer(call, by: broker)
  }
}

extension Served where Self: TokenRelease {
  static var subject: Subject<Params> { .account { $0.account } }

  /// It may have to wait for a person first.
  static func serve(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    var cleared = call
    (cleared.params, cleared.permission) = try await broker.approvals.clear(
      Self.self, call.params, call.permission, call.session)
    let result = try await answer(cleared, by: broker)
    try await broker.approvals.checkAgain(Self.self, cleared.params, cleared.permission)
    return result
  }
}
