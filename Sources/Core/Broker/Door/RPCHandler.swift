import BrokerAPI
import Grants
import Principals

/// A method with its implementation, in the file of the piece that does the work.
protocol RPCHandler: RPCMethod {
  /// The object of a call, which its parameters name: an account, or nothing.
  associatedtype Object: Sendable = Void
  static var subject: Subject<Params, Object> { get }
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

/// A method about an account that releases its token or uses it.
protocol ReleaseHandler: RPCHandler, TokenRelease where Object == AccountName {}

/// The object of the required permission.
struct Subject<Params, Object: Sendable>: Sendable {
  enum Extent: Sendable {
    /// The broker itself, with all its accounts.
    case broker
    /// The account that the request names.
    case account(@Sendable (Params) -> String)
    /// Any account; the method checks each.
    case someAccount
  }

  let extent: Extent
  /// Reads the object once the caller is permitted to know whether its name is valid.
  let object: @Sendable (Params) throws(RPCError) -> Object
}

extension Subject where Object == Void {
  static var broker: Self { Self(extent: .broker) { _ in } }
  static var someAccount: Self { Self(extent: .someAccount) { _ in } }
}

extension Subject where Object == AccountName {
  static func account(_ name: @escaping @Sendable (Params) -> String) -> Self {
    Self(extent: .account(name)) { params throws(RPCError) in try accountName(name(params)) }
  }

  /// The account of a login, which has the provider's name if it is given none.
  static func login(
    _ account: @escaping @Sendable (Params) -> String?, at provider: @escaping @Sendable (Params) -> String
  ) -> Self {
    Self(extent: .account { account($0) ?? provider($0) }) { params throws(RPCError) in
      let provider = try providerName(provider(params))
      return try accountName(account(params) ?? provider.rawValue)
    }
  }
}

/// A request whose caller is permitted to make it.
struct Call<Method: RPCHandler>: Sendable {
  var params: Method.Params
  /// Parsed once: the door reads it.
  let object: Method.Object
  let session: any Session
  var permission: Permission

  var caller: Principal { session.principal }
}

extension Call where Method.Object == AccountName {
  var account: AccountName { object }
}

extension RPCHandler where Object == Void {
  static var subject: Subject<Params, Void> { .broker }
}

extension RPCHandler {
  static func access(for params: Params) -> Access { access }
  static var accesses: [Access] { [access] }
  static func request(_ params: Params, by broker: Broker) async -> APIRequest? { nil }
  static func constant(_ call: Call<Self>, by broker: Broker) -> Result? { nil }

  @BrokerActor static func approved(
    _ call: Call<Self>, by broker: Broker
  ) async throws(RPCError) -> Call<Self> { call }

  @BrokerActor static func checkAgain(_ call: Call<Self>, by broker: Broker) throws(RPCError) {}
}

extension ReleaseHandler {
  static var subject: Subject<Params, AccountName> { .account { $0.account } }

  @BrokerActor static func approved(
    _ call: Call<Self>, by broker: Broker
  ) async throws(RPCError) -> Call<Self> {
    var call = call
    (call.params, call.permission) = try await broker.tokens.approvals.clear(
      Self.self, call.account, call.params, call.permission, call.session)
    return call
  }

  @BrokerActor static func checkAgain(_ call: Call<Self>, by broker: Broker) throws(RPCError) {
    try broker.tokens.approvals.checkAgain(Self.self, call.account, call.params, call.permission)
  }
}
