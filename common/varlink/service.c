/* SPDX-License-Identifier: Apache-2.0 */
/* org.varlink.service, the interface that every varlink service has (varlink.org, "Service"). */
#include "common/text/json.h"
#include "common/varlink/private.h"

#include <errno.h>
#include <string.h>

const char varlink_service_idl[] =
	"# The answers of every varlink service about itself.\n"
	"interface org.varlink.service\n"
	"\n"
	"# The maker of the service, and its interfaces.\n"
	"method GetInfo() -> (\n"
	"  vendor: string,\n"
	"  product: string,\n"
	"  version: string,\n"
	"  url: string,\n"
	"  interfaces: []string\n"
	")\n"
	"\n"
	"# The text of one interface.\n"
	"method GetInterfaceDescription(interface: string) -> (description: string)\n"
	"\n"
	"# The service does not have that interface.\n"
	"error InterfaceNotFound (interface: string)\n"
	"\n"
	"# The interface does not have that method.\n"
	"error MethodNotFound (method: string)\n"
	"\n"
	"# The interface has the method, this service does not.\n"
	"error MethodNotImplemented (method: string)\n"
	"\n"
	"# A parameter is missing, unknown or not of its type.\n"
	"error InvalidParameter (parameter: string)\n"
	"\n"
	"# The caller may not do that.\n"
	"error PermissionDenied ()\n"
	"\n"
	"# The method is a stream: it is to be called with \"more\".\n"
	"error ExpectedMore ()\n";

static int get_info(struct varlink_call *call, json_t *parameters, void *arg)
{
	struct varlink_server *s = arg;

	return varlink_reply(call, json_incref(s->info));
}

/* Makes the text once and keeps it: this looks at some ten thousand characters. */
static int describe_interface(struct varlink_interface *i)
{
	_cleanup_json_ json_t *p = json_object();

	if (!i->described && json_put_string(p, "description", i->text) == 0)
		i->described = json_dump_text(p, &i->described_len);
	return i->described ? 0 : -ENOMEM;
}

static int get_interface_description(struct varlink_call *call, json_t *parameters, void *arg)
{
	struct varlink_server *s = arg;
	const char *name = json_get_string(parameters, "interface", "");
	json_t *p;

	for (size_t i = 0; i < s->n_interfaces; i++) {
		struct varlink_interface *found = &s->interfaces[i];

		if (strcmp(found->idl->name, name))
			continue;
		if (describe_interface(found) < 0)
			return -ENOMEM;
		return varlink_reply_text(call, found->described, found->described_len);
	}
	p = json_object();
	json_put_string(p, "interface", name);
	return varlink_error(call, VARLINK_SERVICE "InterfaceNotFound", p);
}

const struct varlink_method varlink_service_methods[] = {
	{ "GetInfo", get_info },
	{ "GetInterfaceDescription", get_interface_description },
	{ NULL, NULL },
};

json_t *varlink_service_info(const struct varlink_options *opt, const struct varlink_server *s)
{
	const char *const members[][2] = {
		{ "vendor", opt->vendor },
		{ "product", opt->product },
		{ "version", opt->version },
		{ "url", opt->url },
	};
	_cleanup_json_ json_t *info = json_object();
	json_t *names = json_array();
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(members) / sizeof(*members); i++)
		r = json_put_string(info, members[i][0], members[i][1] ? members[i][1] : "");
	for (size_t i = 0; r == 0 && i < s->n_interfaces; i++)
		r = json_add(names, json_string(s->interfaces[i].idl->name));
	if (r < 0) {
		json_decref(names);
		return NULL;
	}
	return json_put(info, "interfaces", names) < 0 ? NULL : TAKE_PTR(info);
}
