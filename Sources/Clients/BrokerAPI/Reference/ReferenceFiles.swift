/// The generated files of the reference.
public enum ReferenceFiles {
  /// Name in the `docs` folder and content.
  public static let all: [(name: String, content: String)] = [
    ("rpc.md", RPCReference.markdown()),
    ("errors.md", ErrorReference.markdown()),
  ]
}
