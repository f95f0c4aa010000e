public import Broker
public import Sealing

extension SealingKey {
  /// The key in `file`, which is made at the first start.
  ///
  /// The file must belong to this process's user and be closed to all others. It is not made where `stateFolder` has a
  /// database already: a new key would not open it.
  public static func loadOrCreate(file: String, stateFolder: String) throws(StoreError) -> SealingKey {
    do throws(SealingError) {
      return try KeyFile(file).loadOrCreate {
        StateFolder(path: stateFolder).hasDatabase ? "the database in \(stateFolder)" : nil
      }
    } catch {
      throw StoreError(error)
    }
  }
}
