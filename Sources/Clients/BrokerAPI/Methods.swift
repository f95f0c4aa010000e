/// Every method of the socket. A method that is not here does not exist.
public enum Methods {
  public static let all: [any RPCMethod.Type] = [
    TokenGet.self, TokenReportRejected.self, TokenExchange.self, TokenIntrospect.self, DPoPProof.self,
    RequestSend.self, AccountList.self, AccountGet.self, AccountUserinfo.self, AccountSessions.self,
    AccountEndSession.self, AccountRefresh.self, AccountImport.self, AccountLogout.self, LoginStart.self,
    LoginProbe.self, LoginPassword.self,
    LoginWait.self, LoginContinue.self, LoginHandleCallback.self, LoginCancel.self, LoginList.self,
    PolicyExplain.self, PolicyRules.self, ReleaseList.self, ReleaseApprove.self, ReleaseDeny.self,
    ReleaseRevoke.self, ProviderList.self,
    ProviderGet.self,
    ProviderCheck.self, ProviderRegister.self,
    ProviderUnregister.self, ResourceDiscover.self, ResourceAdd.self, ClientMetadata.self,
    EventsSubscribe.self, AuditList.self, BrokerStatus.self, BrokerReload.self, BrokerMetrics.self,
    BrokerLock.self, BrokerUnlock.self,
    StoreRotateKey.self, StoreBackup.self, StoreBackupPart.self, StoreRestore.self, StoreRestorePart.self,
    StoreRestoreLook.self, StoreRestoreApply.self, StoreRepair.self, UIOpen.self, RPCDiscover.self,
  ]

  /// In the order of ``all``.
  public static let descriptions: [MethodDescription] = all.map { MethodDescription($0) }

  /// What any method may fail with, beside its own errors and JSON-RPC's.
  public static let commonErrors: [ErrorReason] = [.notPermitted, .rateLimited, .overloaded, .shuttingDown, .locked]

  private static let byName = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })
  private static let descriptionsByName = Dictionary(uniqueKeysWithValues: descriptions.map { ($0.name, $0) })

  public static func named(_ name: String) -> (any RPCMethod.Type)? { byName[name] }

  public static func description(of name: String) -> MethodDescription? { descriptionsByName[name] }

  /// The error for an unknown method, with the most similar one.
  public static func notFound(_ name: String) -> RPCError {
    .methodNotFound(String(name.prefix(100)), nearest: nearest(to: name, among: all.map { $0.name }))
  }
}

extension RPCMethod where Params == NoParams {
  public static var paramDocs: [String: String] { [:] }
}

/// A type whose members the reference explains. Every member must be in `docs`; a test compares.
public protocol Documented {
  static var docs: [String: String] { get }
}

/// The maximum edit distance of a suggestion.
private func tolerance(_ word: String) -> Int { max(1, word.utf8.count / 3) }

/// The candidate most similar to a misspelt word, or nil.
func nearest(to word: String, among candidates: [String]) -> String? {
  // A hostile name must not cost more than a typing error does.
  guard word.utf8.count <= 64 else { return nil }
  let ranked = candidates.map { (distance: editDistance(word, $0), candidate: $0) }
  return ranked.min { $0.distance < $1.distance }.flatMap { $0.distance <= tolerance(word) ? $0.candidate : nil }
}

/// The number of insertions, removals and replacements of bytes between two words (Levenshtein 1965).
func editDistance(_ from: String, _ to: String) -> Int {
  let (from, to) = (Array(from.utf8), Array(to.utf8))
  var row = Array(0...to.count)
  for (line, byte) in from.enumerated() {
    var diagonal = row[0]
    row[0] = line + 1
    for (column, other) in to.enumerated() {
      let replaced = diagonal + (byte == other ? 0 : 1)
      diagonal = row[column + 1]
      row[column + 1] = min(replaced, diagonal + 1, row[column] + 1)
    }
  }
  return row[to.count]
}
