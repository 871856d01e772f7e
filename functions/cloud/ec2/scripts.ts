/*
 * What is run on an instance, as text for sh. Systems Manager has no idempotency token for commands, so the instance
 * keeps the account: a folder for each key, with
 *
 *   supervisor   process id, start time and boot id of the supervisor: whether it still lives
 *   work/        the working directory, with the volumes mounted in it
 *   output       standard output and error together
 *   group        process group of the command
 *   stop         somebody wants it to end
 *   exit         its exit code; written last
 *
 * The supervisor prepares the folder under another name and renames it: the folder appears complete, with a living
 * supervisor, or not at all; a second supervisor with the same key cannot rename and ends.
 */

/** Where the folders are. */
export const COMMANDS = "/var/lib/millrace/commands";

/** Seconds until a volume that was attached just now has to be there as a device. */
const DEVICE_SECONDS = 60;

export interface Start {
  readonly command: readonly string[];
  readonly volumes: readonly { readonly id: string; readonly name: string }[];
}

/**
 * Starts a command unless its folder is there.
 *
 * What comes from outside travels as base64: Systems Manager replaces `{{ssm:name}}` in a command by a stored
 * parameter. https://docs.aws.amazon.com/systems-manager/latest/userguide/sysman-param-runcommand.html
 */
export function startScript(folder: string, start: Start): string {
  const supervisor = Buffer.from(superviseScript(start)).toString("base64");
  const root = folder.slice(0, folder.lastIndexOf("/"));
  return `set -u
dir=${quoted(folder)}
[ ! -d "$dir" ] || exit 0
mkdir -p ${quoted(root)} || exit 1
new=$(mktemp -d ${quoted(`${root}/.new-XXXXXX`)}) || exit 1
printf %s '${supervisor}' | base64 -d > "$new/supervise" || exit 1
setsid sh "$new/supervise" "$new" "$dir" > /dev/null 2>&1 < /dev/null &
until [ -d "$dir" ]; do kill -0 "$!" 2> /dev/null || break; sleep 0.1; done
[ -d "$dir" ]
`;
}

/**
 * The supervisor is in a session of its own, and the command in another one: ending the command's whole group leaves
 * somebody to write its exit code. 125 means that the command was never started, as with containers; 143 that it was
 * stopped first.
 *
 * A volume is found by its serial number, which Nitro instances have, and formatted only if blkid is certain (2) that
 * nothing is on it: https://docs.aws.amazon.com/ebs/latest/userguide/identify-nvme-ebs-device.html
 */
function superviseScript({ command, volumes }: Start): string {
  const take = volumes.map(({ id, name }) => `take ${quoted(id.replace("-", ""))} ${quoted(name)}\n`);
  const give = volumes.map(({ name }) => `  give ${quoted(name)}\n`).reverse();
  return `set -u
new=$1 dir=$2
${SELF}
echo "$$ \${20} $(cat /proc/sys/kernel/random/boot_id)" > "$new/supervisor"
mkdir "$new/work"
: > "$new/output"
mv -T "$new" "$dir" 2> /dev/null || { rm -rf "$new"; exit; }
exec >> "$dir/output" 2>&1
cd "$dir/work" || exit

give() {
  umount "./$1" 2> /dev/null || umount -l "./$1" 2> /dev/null
}
finish() {
${give.join("")}  echo "$1" > "$dir/exit.new"
  mv "$dir/exit.new" "$dir/exit"
  exit
}
give_up() {
  echo "millrace: $1"
  finish 125
}
device() {
  lsblk -dnpo NAME,SERIAL | awk -v serial="$1" '$2 == serial { print $1; exit }'
}
take() {
  waited=0
  until device=$(device "$1") && [ -n "$device" ]; do
    [ ! -e "$dir/stop" ] || finish 143
    [ "$waited" -lt ${DEVICE_SECONDS} ] || give_up "no device has appeared for volume $1"
    waited=$((waited + 1))
    sleep 1
  done
  (
    flock 9
    blkid -p "$device" > /dev/null
    [ $? -ne 2 ] || mkfs.ext4 -q "$device"
  ) 9> "$dir/../.format.lock"
  mkdir "./$2" && mount "$device" "./$2" || give_up "volume $1 cannot be mounted"
}
${take.join("")}
setsid -w sh -c '
  echo $$ > "$0/group.new"
  mv "$0/group.new" "$0/group"
  [ ! -e "$0/stop" ] || exit 143
  exec "$@"
' "$dir" ${command.map(quoted).join(" ")}
code=$?
kill -s KILL -- "-$(cat "$dir/group")" 2> /dev/null
finish "$code"
`;
}

/** Prints `exited <code>`, `running`, `dead` (its supervisor ended without an exit code) or `missing`. */
export function stateScript(folder: string): string {
  return `dir=${quoted(folder)}
[ -d "$dir" ] || { echo missing; exit; }
ended() { [ -e "$dir/exit" ] && echo "exited $(cat "$dir/exit")"; }
ended && exit
read -r pid start boot < "$dir/supervisor"
if [ "$boot" = "$(cat /proc/sys/kernel/random/boot_id)" ] && { read -r stat < "/proc/$pid/stat"; } 2> /dev/null; then
  set -- \${stat##*) }
  [ "$1" = Z ] || [ "\${20}" != "$start" ] || { echo running; exit; }
fi
ended || echo dead
`;
}

/** Prints `open` or `ended`, and on the next line bytes of the output as base64; or `missing`. */
export function outputScript(folder: string, from: number, bytes: number): string {
  return `dir=${quoted(folder)}
[ -d "$dir" ] || { echo missing; exit; }
if [ -e "$dir/exit" ]; then echo ended; else echo open; fi
tail -c +${from + 1} "$dir/output" | head -c ${bytes} | base64 -w 0
`;
}

/**
 * SIGTERM for the whole group now, SIGKILL after the grace. The marker reaches a command that has no group yet.
 * `-s`, as dash takes no `--` after `-TERM`.
 */
export function stopScript(folder: string, graceSeconds: number): string {
  return `dir=${quoted(folder)}
[ -d "$dir" ] && [ ! -e "$dir/exit" ] || exit 0
: > "$dir/stop"
[ -e "$dir/group" ] || exit 0
group=$(cat "$dir/group")
kill -s TERM -- "-$group" 2> /dev/null
setsid sh -c 'sleep "$1"; [ ! -d "$0" ] || [ -e "$0/exit" ] || kill -s KILL -- "-$2"' "$dir" ${graceSeconds} "$group" > /dev/null 2>&1 < /dev/null &
`;
}

/** Positional parameters become the fields of /proc/<pid>/stat after the name: 1 is the state, 20 the start time. */
const SELF = `read -r stat < "/proc/$$/stat"
set -- \${stat##*) }`;

/** A word of sh that means exactly this text. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
