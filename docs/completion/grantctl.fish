set -g __grantctl_functions '# sh, not prose (words: ok)
_grantctl_children() {
  case "$1" in
    \'\') reply=\'setup login ui status doctor logout token exec request configure sasl list show refresh import sessions userinfo introspect exchange proof explain approve audit lock unlock provider client-metadata reload backup restore key repair events metrics version call openrpc helper mcp handle-url\' ;;
    \'login\') reply=\'list continue cancel\' ;;
    \'provider\') reply=\'list show register unregister\' ;;
    \'key\') reply=\'rotate\' ;;
    *) reply= ;;
  esac
}
_grantctl_options() {
  case "$1" in
    \'\') reply=\'--version --help\' ;;
    \'setup\') reply=\'--name --client-id --client-secret-file --initial-access-token-file --ca-file --scope --set --device --manual --no-browser --provider-only --skip-probe --tool --server --yes --socket --system --user --json --timeout --version --help\' ;;
    \'login\') reply=\'--scope --resource --audience --issuer --client-id --name --prompt --login-hint --param --app --idp --prefill --code-only --replace-session --replace --attribute --attribute-json --no-browser --browser-uid --manual --device --qr --username --socket --system --user --json --timeout --version --help\' ;;
    \'ui\') reply=\'--no-browser --browser-uid --socket --system --user --json --timeout --version --help\' ;;
    \'status\') reply=\'--state --provider --wide --socket --system --user --json --timeout --version --help\' ;;
    \'doctor\') reply=\'--socket --system --user --json --timeout --version --help\' ;;
    \'logout\') reply=\'--no-revoke --end-session --open --extent --socket --system --user --json --timeout --version --help\' ;;
    \'token\') reply=\'--min-ttl --scope --resource --audience --id-token --as-header --cookie --socket --system --user --json --timeout --version --help\' ;;
    \'exec\') reply=\'--env --fd --file-env --scope --id-token --socket --system --user --json --timeout --version --help\' ;;
    \'request\') reply=\'--header --data --include --socket --system --user --json --timeout --version --help\' ;;
    \'configure\') reply=\'--as --role --stdio --id-token --write --undo --diff --socket --system --user --json --timeout --version --help\' ;;
    \'sasl\') reply=\'--as --host --port --socket --system --user --json --timeout --version --help\' ;;
    \'list\') reply=\'--provider --after --limit --socket --system --user --json --timeout --version --help\' ;;
    \'show\') reply=\'--socket --system --user --json --timeout --version --help\' ;;
    \'refresh\') reply=\'--now --socket --system --user --json --timeout --version --help\' ;;
    \'import\') reply=\'--provider --from --file --entry --client-id --client-secret-file --scope --resource --replace-identity --socket --system --user --json --timeout --version --help\' ;;
    \'sessions\') reply=\'--end --socket --system --user --json --timeout --version --help\' ;;
    \'login list\') reply=\'--socket --system --user --json --timeout --version --help\' ;;
    \'login continue\') reply=\'--code-only --replace-session --replace --attribute --attribute-json --socket --system --user --json --timeout --version --help\' ;;
    \'login cancel\') reply=\'--socket --system --user --json --timeout --version --help\' ;;
    \'userinfo\') reply=\'--socket --system --user --json --timeout --version --help\' ;;
    \'introspect\') reply=\'--socket --system --user --json --timeout --version --help\' ;;
    \'exchange\') reply=\'--audience --resource --scope --requested-token-type --actor --as-header --socket --system --user --json --timeout --version --help\' ;;
    \'proof\') reply=\'--nonce --access-token-file --as-header --socket --system --user --json --timeout --version --help\' ;;
    \'explain\') reply=\'--pid --unit --uid --user-unit --exe --method --id-token --all --socket --system --user --json --timeout --version --help\' ;;
    \'approve\') reply=\'--deny --for --calls --wait --socket --system --user --json --timeout --version --help\' ;;
    \'audit\') reply=\'--account --since --until --uid --unit --action --refused --limit --socket --system --user --json --timeout --version --help\' ;;
    \'lock\') reply=\'--new-passphrase --passphrase-file --socket --system --user --json --timeout --version --help\' ;;
    \'unlock\') reply=\'--passphrase-file --socket --system --user --json --timeout --version --help\' ;;
    \'provider\') reply=\'--version --help\' ;;
    \'provider list\') reply=\'--socket --system --user --json --timeout --version --help\' ;;
    \'provider show\') reply=\'--toml --socket --system --user --json --timeout --version --help\' ;;
    \'provider register\') reply=\'--name --scope --redirect-uri --auth-method --resource --api-base --ca-file --initial-access-token-file --client-id --client-secret-file --socket --system --user --json --timeout --version --help\' ;;
    \'provider unregister\') reply=\'--socket --system --user --json --timeout --version --help\' ;;
    \'client-metadata\') reply=\'--socket --system --user --json --timeout --version --help\' ;;
    \'reload\') reply=\'--socket --system --user --json --timeout --version --help\' ;;
    \'backup\') reply=\'--passphrase-file --key-file --force --socket --system --user --json --timeout --version --help\' ;;
    \'restore\') reply=\'--passphrase-file --key-file --moved --replace --older --socket --system --user --json --timeout --version --help\' ;;
    \'key\') reply=\'--version --help\' ;;
    \'key rotate\') reply=\'--socket --system --user --json --timeout --version --help\' ;;
    \'repair\') reply=\'--remove --socket --system --user --json --timeout --version --help\' ;;
    \'events\') reply=\'--event --socket --system --user --json --timeout --version --help\' ;;
    \'metrics\') reply=\'--socket --system --user --json --timeout --version --help\' ;;
    \'version\') reply=\'--socket --system --user --json --timeout --version --help\' ;;
    \'call\') reply=\'--socket --system --user --json --timeout --version --help\' ;;
    \'openrpc\') reply=\'--socket --system --user --json --timeout --version --help\' ;;
    \'helper\') reply=\'--socket --system --user --json --timeout --version --help\' ;;
    \'mcp\') reply=\'--socket --system --user --json --timeout --version --help\' ;;
    \'handle-url\') reply=\'--register --unregister --socket --system --user --json --timeout --version --help\' ;;
    *) reply= ;;
  esac
}
_grantctl_position() {
  case "$1" in
    \'setup:0\') reply=\'providers\' ;;
    \'setup:1\') reply=\'accounts\' ;;
    \'login:0\') reply=\'providers\' ;;
    \'login:1\') reply=\'accounts\' ;;
    \'doctor:0\') reply=\'subjects\' ;;
    \'logout:0\') reply=\'accounts\' ;;
    \'token:0\') reply=\'accounts\' ;;
    \'exec:0\') reply=\'accounts\' ;;
    \'exec:1\') reply=\'-\' ;;
    \'request:0\') reply=\'accounts\' ;;
    \'request:1\') reply=\'-\' ;;
    \'request:2\') reply=\'-\' ;;
    \'configure:0\') reply=\'tools\' ;;
    \'configure:1\') reply=\'accounts\' ;;
    \'configure:2\') reply=\'-\' ;;
    \'sasl:0\') reply=\'accounts\' ;;
    \'sasl:1\') reply=\'=xoauth2 oauthbearer\' ;;
    \'show:0\') reply=\'accounts\' ;;
    \'refresh:0\') reply=\'accounts\' ;;
    \'import:0\') reply=\'accounts\' ;;
    \'sessions:0\') reply=\'accounts\' ;;
    \'login continue:0\') reply=\'logins\' ;;
    \'login cancel:0\') reply=\'logins\' ;;
    \'userinfo:0\') reply=\'accounts\' ;;
    \'introspect:0\') reply=\'accounts\' ;;
    \'exchange:0\') reply=\'accounts\' ;;
    \'proof:0\') reply=\'accounts\' ;;
    \'proof:1\') reply=\'-\' ;;
    \'proof:2\') reply=\'-\' ;;
    \'explain:0\') reply=\'accounts\' ;;
    \'approve:0\') reply=\'releases\' ;;
    \'provider show:0\') reply=\'providers\' ;;
    \'provider register:0\') reply=\'-\' ;;
    \'provider unregister:0\') reply=\'providers\' ;;
    \'backup:0\') reply=\'file\' ;;
    \'restore:0\') reply=\'file\' ;;
    \'repair:0\') reply=\'-\' ;;
    \'call:0\') reply=\'methods\' ;;
    \'call:1\') reply=\'params\' ;;
    \'helper:0\') reply=\'-\' ;;
    \'mcp:0\') reply=\'accounts\' ;;
    \'mcp:1\') reply=\'-\' ;;
    \'handle-url:0\') reply=\'-\' ;;
    *) reply=- ;;
  esac
}
_grantctl_value() {
  case "$1" in
    \'--access-token-file\') reply=\'file\' ;;
    \'--account\') reply=\'accounts\' ;;
    \'--action\') reply=\'=release id_token use login logout policy admin observe\' ;;
    \'--actor\') reply=\'accounts\' ;;
    \'--after\') reply=\'-\' ;;
    \'--api-base\') reply=\'-\' ;;
    \'--app\') reply=\'-\' ;;
    \'--as\') reply=\'-\' ;;
    \'--attribute\') reply=\'-\' ;;
    \'--attribute-json\') reply=\'-\' ;;
    \'--audience\') reply=\'-\' ;;
    \'--auth-method\') reply=\'-\' ;;
    \'--browser-uid\') reply=\'-\' ;;
    \'--ca-file\') reply=\'file\' ;;
    \'--calls\') reply=\'-\' ;;
    \'--client-id\') reply=\'-\' ;;
    \'--client-secret-file\') reply=\'file\' ;;
    \'--data\') reply=\'-\' ;;
    \'--end\') reply=\'-\' ;;
    \'--entry\') reply=\'-\' ;;
    \'--env\') reply=\'-\' ;;
    \'--event\') reply=\'events\' ;;
    \'--exe\') reply=\'file\' ;;
    \'--extent\') reply=\'-\' ;;
    \'--fd\') reply=\'-\' ;;
    \'--file\') reply=\'file\' ;;
    \'--file-env\') reply=\'-\' ;;
    \'--for\') reply=\'-\' ;;
    \'--from\') reply=\'-\' ;;
    \'--header\') reply=\'-\' ;;
    \'--host\') reply=\'-\' ;;
    \'--idp\') reply=\'-\' ;;
    \'--initial-access-token-file\') reply=\'file\' ;;
    \'--issuer\') reply=\'-\' ;;
    \'--key-file\') reply=\'file\' ;;
    \'--limit\') reply=\'-\' ;;
    \'--login-hint\') reply=\'-\' ;;
    \'--method\') reply=\'methods\' ;;
    \'--min-ttl\') reply=\'-\' ;;
    \'--name\') reply=\'-\' ;;
    \'--nonce\') reply=\'-\' ;;
    \'--param\') reply=\'-\' ;;
    \'--passphrase-file\') reply=\'file\' ;;
    \'--pid\') reply=\'-\' ;;
    \'--port\') reply=\'-\' ;;
    \'--prefill\') reply=\'-\' ;;
    \'--prompt\') reply=\'-\' ;;
    \'--provider\') reply=\'providers\' ;;
    \'--qr\') reply=\'=never auto always\' ;;
    \'--redirect-uri\') reply=\'-\' ;;
    \'--register\') reply=\'-\' ;;
    \'--replace\') reply=\'-\' ;;
    \'--replace-session\') reply=\'-\' ;;
    \'--requested-token-type\') reply=\'-\' ;;
    \'--resource\') reply=\'-\' ;;
    \'--role\') reply=\'-\' ;;
    \'--scope\') reply=\'-\' ;;
    \'--server\') reply=\'-\' ;;
    \'--set\') reply=\'-\' ;;
    \'--since\') reply=\'-\' ;;
    \'--socket\') reply=\'file\' ;;
    \'--state\') reply=\'=ok refreshing degraded login_required action_required\' ;;
    \'--timeout\') reply=\'-\' ;;
    \'--tool\') reply=\'-\' ;;
    \'--uid\') reply=\'-\' ;;
    \'--unit\') reply=\'units\' ;;
    \'--unregister\') reply=\'-\' ;;
    \'--until\') reply=\'-\' ;;
    \'--user-unit\') reply=\'user-units\' ;;
    \'--username\') reply=\'-\' ;;
    *) reply= ;;
  esac
}
# sh, not prose (words: ok)
_grantctl_names() {
  case "$1" in
    \'=\'*) for name in ${1#=}; do printf \'%s\\n\' "$name"; done ;;
    - | file | \'\') ;;
    params) "$program" complete-names params "$word" ;;
    *) if [ -n "$socket" ]; then "$program" complete-names "$1" --socket "$socket"
       else "$program" complete-names "$1" ${broker:+"$broker"}; fi ;;
  esac 2>/dev/null
}
_grantctl_candidates() {
  program=$1 route= position=0 broker= socket= valued= word= reply=
  shift
  while [ $# -gt 1 ]; do
    case "$1" in
      --system | --user) broker=$1 ;;
      -*)
        _grantctl_value "$1"
        if [ -n "$reply" ]; then
          if [ $# -gt 2 ]; then
            if [ "$1" = --socket ]; then socket=$2; fi
            shift
          else
            valued=$reply
          fi
        fi ;;
      *)
        _grantctl_children "$route"
        case " $reply " in
          *" $1 "*) if [ $position = 0 ]; then route="${route:+$route }$1"; fi ;;
          *) position=$((position + 1)) word=$1 ;;
        esac ;;
    esac
    shift
  done
  if [ -n "$valued" ]; then
    _grantctl_names "$valued"
    return
  fi
  case "$1" in
    -*)
      _grantctl_options "$route"
      _grantctl_names "=$reply" ;;
    *)
      if [ $position = 0 ]; then
        _grantctl_children "$route"
        _grantctl_names "=$reply"
      fi
      _grantctl_position "$route:$position"
      _grantctl_names "$reply" ;;
  esac
}
'
function __grantctl_candidates
  set -l words (commandline -opc)
  sh -c "$__grantctl_functions"' _grantctl_candidates "$@"' sh $words (commandline -ct)
end
complete -c grantctl -a '(__grantctl_candidates)'
