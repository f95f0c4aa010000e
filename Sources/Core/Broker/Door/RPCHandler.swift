import BrokerAPI
import Principals

/// A method with its implementation, in the file of the piece that does the work.
protocol RPCHandler: RPCMethod {
  static var subject: Subject<Params> { get }
  /// The access for this request: ``access``, or for some parameters another kind.
  static func access(for params: Params) -> Access
  /// Every kind of access that a request of this method may take.
  static var accesses: [Access] { get }
  /// The request to the provider's API; nil: none.
  static func request(_ params: Params, by broker: Broker) async -> APIRequest?
  /// The call after the user's approval, if it needs one.
  @BrokerActor static func approved(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Call<Self>
  /// An answer that needs no state of the broker; nil: ``answer(_:by:)`` makes it. It is made on the worker that read the
  /// request, so that long answers of one user are made one after the other, in turn with the requests of others. No approval
  /// precedes it, so it is for methods with the access `.open` only.
  static func constant(_ call: Call<Self>, by broker: Broker) -> Result?
  /// The work, once the caller is permitted to call it.
  @BrokerActor static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result
  /// Whether an approved call is still permitted after the work.
  @BrokerActor static func checkAgain(_ call: Call<Self>, by broker: Broker) throws(RPCError)
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

  var caller: Principal { session.principal }
}

extension RPCHandler {
  static var subject: Subject<Params> { .broker }
  static func access(for params: Params) -> Access { access }
  static var accesses: [Access] { [access] }
  static func request(_ params: Params, by broker: Broker) async -> APIRequest? { nil }
  static func constant(_ call: Call<Self>, by broker: Broker) -> Result? { nil }

  @BrokerActor static func approved(
    _ call: Call<Self>, by broker: Broker
  ) async throws(RPCError) -> Call<Self> { call }

  @BrokerActor static func checkAgain(_ call: Call<Self>, by broker: Broker) throws(RPCError) {}
}

extension RPCHandler where Self: TokenRelease {
  static var subject: Subject<Params> { .account { $0.account } }

  @BrokerActor static func approved(
    _ call: Call<Self>, by broker: Broker
  ) async throws(RPCError) -> Call<Self> {
    var call = call
    (call.params, call.permission) = try await broker.tokens.approvals.clear(
      Self.self, call.params, call.permission, call.session)
    return call
  }

  @BrokerActor static func checkAgain(_ call: Call<Self>, by broker: Broker) throws(RPCError) {
    try broker.tokens.approvals.checkAgain(Self.self, call.params, call.permission)
  }
}
