/// A method as the reference describes it, made from its type.
public struct MethodDescription: Sendable {
  public var name: String
  public var access: Access
  public var summary: String
  public var params: [ObjectSchema.Member]
  public var result: JSONSchema
  /// The meaning of the result's members, if the result is an object.
  public var resultMembers: [ObjectSchema.Member]
  /// Its own errors, then those of every method.
  public var errors: [ErrorReason]
  private var type: any RPCMethod.Type
  public var example: MethodExample { type.example }

  public init<M: RPCMethod>(_ method: M.Type) {
    type = M.self
    name = M.name
    access = M.access
    summary = M.summary
    params = JSONSchema(of: M.Params.self, docs: M.paramDocs).members
    result = JSONSchema(of: M.Result.self, docs: M.resultDocs)
    resultMembers = result.members
    let common = Methods.commonErrors.filter { M.access != .open || $0 != .notPermitted }
    errors = M.errors + common.filter { !M.errors.contains($0) }
    // The types all have the name Result; in the components each needs its own.
    if case .object(var object) = result, object.name == "Result" {
      object.name = String(describing: M.self) + "Result"
      result = .object(object)
    }
  }
}

extension JSONSchema {
  var members: [ObjectSchema.Member] {
    if case .object(let object) = self { object.members } else { [] }
  }
}
