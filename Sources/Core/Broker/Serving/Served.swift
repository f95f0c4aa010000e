import BrokerAPI

/// A method with its implementation, in the file of the piece that does the work.
protocol Served: RPCMethod {
  static var subject: Subject<Params> { get }
  /// The access for this request: ``access``, or for some parameters another kind.
  static func access(for params: Params) -> Access
  /// Every kind of access that a request of this method may take.
  static var accesses: [Access] { get }
  /// Once the caller is permitted to call it.
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result
  /// The request to the provider's API; nil: none.
  static func request(_ params: Params, by broker: Broker) async -> APIRequest?
  /// ``answer(_:by:)`` with the common steps of its family before and after.
  static func serve(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result
}

/// The object of the required permission.
enum Subject<Params> {
  /// The broker itself, with all its accounts.
  case broker
  /// The account that the request names.
  case account(@Sendable (Params) -> String)
  /// Any account; the method checks each.
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

  /// It may need approval first.
  static func serve(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    var cleared = call
    (cleared.params, cleared.permission) = try await broker.approvals.clear(
      Self.self, call.params, call.permission, call.session)
    let result = try await answer(cleared, by: broker)
    try await broker.approvals.checkAgain(Self.self, cleared.params, cleared.permission)
    return result
  }
}
