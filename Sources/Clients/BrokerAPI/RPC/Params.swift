/// The parameters of a call as the method's type, or `invalid params` naming the member and what is wrong with it.
/// Parameters are given by name (JSON-RPC 2.0 §4.2); absent ones are an empty object.
public func decodeParams<M: RPCMethod>(_ method: M.Type, from params: JSON?) throws(RPCError) -> M.Params {
  let object = params ?? .object([])
  if case .array = object {
    throw .invalidParams(
      "params: expected an object, got an array", hint: "Parameters are given by name: {\"account\": \"work\"}.")
  }
  // Describing a method takes milliseconds, and is needed only for errors and documents.
  let docs = M.paramDocs
  if !(object.members ?? []).allSatisfy({ docs[$0.name] != nil }) {
    let description = Methods.description(of: M.name) ?? MethodDescription(method)
    try validateMembers(of: object, known: description.params.map(\.name))
  }
  do throws(ParamsError) {
    return try object.decode(M.Params.self)
  } catch {
    throw .invalidParams("\(error)", hint: "`grantctl call rpc.discover` describes the parameters of \(M.name).")
  }
}

/// Refuses members that are not known, so that a misspelt one is not silently without effect.
public func validateMembers(of object: JSON, known: [String]) throws(RPCError) {
  for member in object.members ?? [] where !known.contains(member.name) {
    let message = "unknown member \"\(member.name.prefix(64))\""
    if let nearest = nearest(to: member.name, among: known) {
      throw .invalidParams("\(message); did you mean \"\(nearest)\"?")
    }
    let hint = known.isEmpty ? "The method has no parameters." : "Known are: \(known.joined(separator: ", "))."
    throw .invalidParams(message, hint: hint)
  }
}

/// How long a method waits: the `timeout` member, in seconds.
public enum Timeouts {
  /// If the caller gives none.
  public static let standard = Duration.seconds(30)
  /// A longer `timeout` counts as this.
  public static let maximum = Duration.seconds(300)

  /// The wait that the caller asks for; invalid params where it is negative or no number.
  public static func duration(_ seconds: Double?) throws(RPCError) -> Duration {
    guard let seconds else { return standard }
    guard seconds >= 0 else { throw .invalidParams("params.timeout: expected 0 or more seconds, got \(seconds)") }
    return seconds >= 300 ? maximum : .seconds(seconds)
  }
}
